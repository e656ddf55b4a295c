package main

import (
	"math"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	// The oldest answer of a copy, in milliseconds.
	ageMax = 250
	// The clocks of cells run slower by this part of the time at most.
	driftPart = 50
)

// never is when a request ends that has no answer: it may be executed at any later time.
const never = math.MaxInt64

// Entry is one request and what came of it. Times are nanoseconds since the start of the run.
type Entry struct {
	Client  int
	Through int
	// The connection, among those of the client.
	Conn    int
	Request *Request
	Reply   *Reply
	Call    int64
	Return  int64
}

// History is what all clients have done.
type History struct {
	mutex   sync.Mutex
	entries []Entry
	// How old the answers to reads may be that copies may give.
	age time.Duration
	// Requests with an answer, without one, and refused.
	Answered, Open, Refused int
	// By the first words of the line.
	Errors map[string]int
}

func newHistory(age time.Duration) *History {
	return &History{Errors: map[string]int{}, age: age}
}

// note adds an entry, unless nothing follows from it.
func (h *History) note(entry Entry) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if entry.Reply.Line != "" && entry.Reply.Result <= Refused {
		h.Errors[withoutNumbers(entry.Reply.Line)]++
	}
	switch {
	case entry.Reply.Result == Refused:
		h.Refused++
		return
	case entry.Reply.Result == Open:
		h.Open++
		if !entry.Request.changes() {
			return
		}
		entry.Return = never
	default:
		h.Answered++
	}
	h.entries = append(h.entries, entry)
}

func (h *History) answered() int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.Answered
}

// withoutNumbers makes one line of those that differ by the number of a cell or a range.
func withoutNumbers(line string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return 'N'
		}
		return r
	}, line)
}

// of is the history of one key, in the order of the calls. Requests that concern all keys are
// a part of each.
func (h *History) of(key string) []Entry {
	entries := h.shown(key)
	bound(entries)
	if h.age > 0 {
		widen(entries, h.age)
	}
	return entries
}

// shown is the same as clients have seen it.
func (h *History) shown(key string) []Entry {
	var entries []Entry
	for _, entry := range h.entries {
		if entry.Request.Key == key || entry.Request.Kind == Flush {
			entries = append(entries, entry)
		}
	}
	sort.SliceStable(entries, func(a, b int) bool { return entries[a].Call < entries[b].Call })
	return entries
}

// widen lets the answers of copies be as old as they may: they were right at some moment since
// that. What has made a value was asked before that is read, which bounds the search.
func widen(entries []Entry, age time.Duration) {
	made := map[string]int64{}
	for _, entry := range entries {
		for _, name := range writers(entry.Request.Key, entry.Request.Value+entry.Request.Initial) {
			made[name] = entry.Call
		}
	}
	for at := range entries {
		entry := &entries[at]
		if !entry.Request.isForCopies() || entry.Return == never {
			continue
		}
		call := entry.Call - int64(age+age/driftPart)
		if value := entry.Reply.Value; value != nil {
			for _, name := range writers(entry.Request.Key, *value) {
				call = max(call, min(made[name], entry.Call))
			}
		}
		entry.Call = call
	}
	sort.SliceStable(entries, func(a, b int) bool { return entries[a].Call < entries[b].Call })
}

// bound ends requests without an answer when what they have written was read. Every value is
// written by one request only, so they had been executed then.
func bound(entries []Entry) {
	read := map[string]int64{}
	for _, entry := range entries {
		if entry.Reply.Result != Done || entry.Reply.Value == nil {
			continue
		}
		for _, name := range writers(entry.Request.Key, *entry.Reply.Value) {
			if at, ok := read[name]; !ok || entry.Return < at {
				read[name] = entry.Return
			}
		}
	}
	for at := range entries {
		entry := &entries[at]
		written := entry.Request.Value + entry.Request.Initial
		if entry.Return != never || written == "" {
			continue
		}
		for _, name := range writers(entry.Request.Key, written) {
			if when, ok := read[name]; ok {
				entry.Return = max(when, entry.Call)
			}
		}
	}
}

// writers names the requests that have made a value.
func writers(key, value string) []string {
	if isNumber(key) {
		number, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return nil
		}
		return []string{strconv.FormatUint(number/numberStep, 10)}
	}
	return strings.Split(strings.TrimSuffix(value, ">"), ">")
}

// operations are the entries as porcupine takes them.
func operations(entries []Entry) []porcupine.Operation {
	operations := make([]porcupine.Operation, len(entries))
	for at, entry := range entries {
		operations[at] = porcupine.Operation{
			ClientId: entry.Client,
			Input:    entry.Request,
			Output:   entry.Reply,
			Call:     entry.Call,
			Return:   entry.Return,
		}
	}
	return operations
}

// Tokens are those that clients have seen.
type Tokens struct {
	mutex sync.Mutex
	seen  map[string][2]uint64
}

func (t *Tokens) see(key string, token uint64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if pair := t.seen[key]; pair[0] != token {
		t.seen[key] = [2]uint64{token, pair[0]}
	}
}

// last is the token that was seen last; 0 for none.
func (t *Tokens) last(key string) uint64 {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.seen[key][0]
}

// old is the token that was seen before the last one.
func (t *Tokens) old(key string) uint64 {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.seen[key][1]
}
