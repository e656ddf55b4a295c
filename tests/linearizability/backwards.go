package main

import "fmt"

// A connection whose reads copies may answer reads its own changes, and never what is older than
// what it was shown before. Tokens say which of two values of a key is older.

// backwards says where a connection was shown an older value of the key than before; "" if nowhere.
// The entries are those of one key, as clients have seen them.
func backwards(entries []Entry) string {
	tokens := tokensOf(entries)
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

// span is while a value was there, at most.
type span struct{ from, to int64 }

// tokensOf says which token each value had, of those that have had one only and of which a reply
// has shown it. A step back to a number gives it another one, and so does `md` with `I`.
func tokensOf(entries []Entry) map[string]uint64 {
	called := map[string]int64{}
	for _, entry := range entries {
		request := entry.Request
		for _, name := range writers(request.Key, request.Value+request.Initial) {
			called[name] = entry.Call
		}
	}
	tokens, spans := map[string]uint64{}, map[string]span{}
	for _, entry := range entries {
		value := madeOrShown(entry)
		if value == "" {
			continue
		}
		there := spans[value]
		for _, name := range writers(entry.Request.Key, value) {
			there.from = max(there.from, called[name])
		}
		there.to = max(there.to, entry.Return)
		spans[value] = there
		if entry.Reply.Value != nil && entry.Reply.Token != 0 {
			tokens[value] = entry.Reply.Token
		}
	}
	for _, entry := range entries {
		if !givesTokenAgain(entry) {
			continue
		}
		for value, there := range spans {
			if entry.Call <= there.to && there.from <= entry.Return {
				delete(tokens, value)
			}
		}
	}
	return tokens
}

// madeOrShown is the value that the key has by an entry; "" where it does not say so.
func madeOrShown(entry Entry) string {
	request, reply := entry.Request, entry.Reply
	switch {
	case reply.Result != Done:
		return ""
	case reply.Value != nil:
		return *reply.Value
	case request.Kind == Store && (request.Mode == Set || request.Mode == Add):
		return request.Value
	}
	return ""
}

// givesTokenAgain says whether an entry may have given another token to a value that was there
// before.
func givesTokenAgain(entry Entry) bool {
	request, result := entry.Request, entry.Reply.Result
	again := request.Kind == Step || request.Kind == Delete && request.Stales
	return again && (result == Done || result == Open)
}

// tokenOf is the token that the key had as the entry has shown it, or made it; 0 if none knows.
func tokenOf(entry Entry, tokens map[string]uint64) uint64 {
	if reply := entry.Reply; reply.Result == Done && reply.Token != 0 {
		return reply.Token
	}
	return tokens[madeOrShown(entry)]
}
