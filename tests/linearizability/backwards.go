package main

import "fmt"

// A connection whose reads copies may answer reads its own changes, and never what is older than
// what it was shown before. Tokens say which of two values of a key is older.

// backwards says where a connection was shown an older value of the key than before; "" if nowhere.
// The entries are those of one key, as clients have seen them.
func backwards(entries []Entry) string {
	// A value that has had several tokens says nothing: 0.
	tokens := map[string]uint64{"": 0}
	for _, entry := range entries {
		value, token := entry.Reply.Value, entry.Reply.Token
		if value == nil || token == 0 {
			continue
		}
		if known, ok := tokens[*value]; ok && known != token {
			token = 0
		}
		tokens[*value] = token
	}
	// By connection, what it was shown, and when.
	type shown struct {
		token uint64
		at    int64
	}
	type connection struct{ client, number int }
	seen := map[connection][]shown{}
	for _, entry := range entries {
		token := tokenOf(entry, tokens)
		if token == 0 {
			continue
		}
		of := connection{entry.Client, entry.Conn}
		for _, before := range seen[of] {
			if before.at < entry.Call && token < before.token {
				return fmt.Sprintf("client %d was shown token %d, and after that %d: %s", entry.Client,
					before.token, token, describe(entry.Request, entry.Reply))
			}
		}
		seen[of] = append(seen[of], shown{token, entry.Return})
	}
	return ""
}

// tokenOf is the token that the key had as the entry has shown it, or made it; 0 if none knows.
func tokenOf(entry Entry, tokens map[string]uint64) uint64 {
	request, reply := entry.Request, entry.Reply
	switch {
	case reply.Result != Done:
		return 0
	case reply.Token != 0:
		return reply.Token
	case reply.Value != nil:
		return tokens[*reply.Value]
	case request.Kind == Store && (request.Mode == Set || request.Mode == Add):
		return tokens[request.Value]
	}
	return 0
}
