package main

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

func number(value uint32) *uint32 { return &value }

var (
	get      = &Request{Kind: Get}
	mg       = &Request{Kind: Get, Wins: true}
	makes    = &Request{Kind: Get, Wins: true, Makes: true, Life: Forever}
	setA     = &Request{Kind: Store, Mode: Set, Value: "<a>", Flags: 1, Life: Forever}
	setB     = &Request{Kind: Store, Mode: Set, Value: "<b>", Flags: 2, Life: Long}
	addC     = &Request{Kind: Store, Mode: Add, Value: "<c>", Flags: 3, Life: Forever}
	replaceC = &Request{Kind: Store, Mode: Replace, Value: "<c>", Flags: 3, Life: Forever}
	appendD  = &Request{Kind: Store, Mode: Append, Value: "<d>"}
	cas7     = &Request{Kind: Store, Mode: Set, Value: "<e>", Token: 7, Life: Forever}
	drop     = &Request{Kind: Delete}
	stales   = &Request{Kind: Delete, Stales: true}
	touched  = &Request{Kind: Touch, Life: Long}
	setNine  = &Request{Kind: Store, Mode: Set, Value: "9", Life: Forever}
	incrTwo  = &Request{Kind: Step, Delta: 2}
	flush    = &Request{Kind: Flush}
	lose     = &Request{Kind: Lose}
)

func done() *Reply { return &Reply{Result: Done} }

func is(result Result) *Reply { return &Reply{Result: result} }

func shows(value string) *Reply { return &Reply{Result: Done, Value: &value} }

func marked(won, stale, sent bool) *Reply {
	return &Reply{Result: Done, IsMeta: true, Won: won, Stale: stale, Sent: sent}
}

// entry is a request from one time to another; 0 for never.
func entry(request *Request, reply *Reply, call, ends int64) Entry {
	if ends == 0 {
		ends = never
	}
	return Entry{Request: request, Reply: reply, Call: call, Return: ends}
}

// in puts entries one after the other.
func in(pairs ...any) []Entry {
	var entries []Entry
	for at := 0; at < len(pairs); at += 2 {
		call := int64(at * 10)
		entries = append(entries, entry(pairs[at].(*Request), pairs[at+1].(*Reply), call, call+5))
	}
	return entries
}

func TestOrdersThatExplainAllAnswersAreFound(t *testing.T) {
	tokens := func(value string, token uint64) *Reply {
		return &Reply{Result: Done, Value: &value, Token: token}
	}
	cases := []struct {
		name    string
		entries []Entry
		well    bool
	}{
		{"a miss", in(get, is(Missing)), true},
		{"a value from nowhere", in(get, shows("<a>")), false},
		{"read what was written", in(setA, done(), get, shows("<a>")), true},
		{"a write that was answered is lost", in(setA, done(), get, is(Missing)), false},
		{"an old value", in(setA, done(), setB, done(), get, shows("<a>")), false},
		{"flags", in(setA, done(), get, &Reply{Result: Done, Flags: number(2)}), false},
		{"a touch is lost",
			in(setA, done(), touched, done(), get, &Reply{Result: Done, Life: Forever}), false},
		{"a touch is kept",
			in(setA, done(), touched, done(), get, &Reply{Result: Done, Life: Long}), true},
		{"add to nothing", in(addC, done(), get, shows("<c>")), true},
		{"add is refused for nothing", in(addC, is(NotStored)), false},
		{"replace of nothing", in(replaceC, is(NotStored)), true},
		{"replace of nothing is done", in(replaceC, done()), false},
		{"append", in(setA, done(), appendD, done(), get, shows("<a><d>")), true},
		{"append is lost", in(setA, done(), appendD, done(), get, shows("<a>")), false},
		{"append twice",
			in(setA, done(), appendD, done(), get, shows("<a><d><d>")), false},
		{"delete", in(setA, done(), drop, done(), get, is(Missing)), true},
		{"a delete comes undone", in(setA, done(), drop, done(), get, shows("<a>")), false},
		{"incr", in(setNine, done(), incrTwo, shows("11"), get, shows("11")), true},
		{"incr twice", in(setNine, done(), incrTwo, shows("13")), false},
		{"incr of a word", in(setA, done(), incrTwo, is(NotNumber)), true},
		{"flush", in(setA, done(), flush, done(), get, is(Missing)), true},
		{"flush comes undone", in(setA, done(), flush, done(), get, shows("<a>")), false},
		{"cas with its token", in(setA, done(), get, tokens("<a>", 7), cas7, done()), true},
		{"cas with an old token is done",
			in(setA, done(), get, tokens("<a>", 7), setB, done(), cas7, done()), false},
		{"cas with an old token",
			in(setA, done(), get, tokens("<a>", 7), setB, done(), cas7, is(Exists)), true},
		{"cas with its token is refused",
			in(setA, done(), get, tokens("<a>", 7), cas7, is(Exists)), false},
		{"cas of nothing", in(cas7, is(Missing)), true},
		{"a token twice",
			in(setA, done(), get, tokens("<a>", 7), setB, done(), get, tokens("<b>", 7)), false},
		{"a token falls",
			in(setA, done(), get, tokens("<a>", 7), drop, done(), setB, done(),
				get, tokens("<b>", 6)), false},
		{"one wins a stale item",
			in(setA, done(), stales, done(), mg, marked(true, true, false),
				mg, marked(false, true, true)), true},
		{"two win a stale item",
			in(setA, done(), stales, done(), mg, marked(true, true, false),
				mg, marked(true, true, false)), false},
		{"one makes a missing item",
			in(makes, marked(true, false, false), makes, marked(false, false, true)), true},
		{"two make it",
			in(makes, marked(true, false, false), makes, marked(true, false, false)), false},
	}
	for _, c := range cases {
		if well := porcupine.CheckOperations(model, operations(c.entries)); well != c.well {
			t.Errorf("%s: %v, expected %v", c.name, well, c.well)
		}
	}
}

func TestRequestsWithoutAnAnswerMayBeExecutedLateOrNever(t *testing.T) {
	open := entry(setA, is(Open), 1, 0)
	cases := []struct {
		name    string
		entries []Entry
		well    bool
	}{
		{"never", []Entry{open, entry(get, is(Missing), 10, 12)}, true},
		{"late", []Entry{open, entry(get, is(Missing), 10, 12), entry(get, shows("<a>"), 20, 22)},
			true},
		{"it comes and goes",
			[]Entry{open, entry(get, shows("<a>"), 10, 12), entry(get, is(Missing), 20, 22)},
			false},
		{"it is seen by a refusal",
			[]Entry{open, entry(addC, is(NotStored), 10, 12), entry(get, shows("<a>"), 20, 22)},
			true},
		{"a range is lost",
			[]Entry{entry(setA, done(), 1, 2), entry(lose, is(Open), 5, 0),
				entry(get, is(Missing), 10, 12)}, true},
		{"a range is not lost twice",
			[]Entry{entry(lose, is(Open), 5, 0), entry(get, is(Missing), 10, 12),
				entry(setA, done(), 20, 22), entry(get, is(Missing), 30, 32),
				entry(setB, done(), 40, 42), entry(get, is(Missing), 50, 52)}, false},
	}
	for _, c := range cases {
		bound(c.entries)
		if well := porcupine.CheckOperations(model, operations(c.entries)); well != c.well {
			t.Errorf("%s: %v, expected %v", c.name, well, c.well)
		}
	}
}

func TestARequestWithoutAnAnswerHasEndedWhenItsValueWasRead(t *testing.T) {
	entries := []Entry{
		entry(setA, is(Open), 1, 0),
		entry(appendD, is(Open), 2, 0),
		entry(setB, is(Open), 3, 0),
		entry(get, shows("<a><d>"), 10, 12),
		entry(get, shows("<a>"), 4, 8),
	}
	bound(entries)
	if entries[0].Return != 8 || entries[1].Return != 12 || entries[2].Return != never {
		t.Errorf("%d, %d, %d", entries[0].Return, entries[1].Return, entries[2].Return)
	}
}

func TestKeysBelongToTheRangeOfTheirSlice(t *testing.T) {
	report := Report{"range:1:slices": "0-5460", "range:2:slices": "5461-16383"}
	// The published check value: 0xCBF43926.
	if number := report.rangeOf("123456789"); number != "2" {
		t.Error(number)
	}
}

// A connection goes back where it is shown a smaller token than it was before, or than that of its
// own change; another connection may.
func TestBackwards(t *testing.T) {
	value := func(text string) *string { return &text }
	entry := func(conn int, call int64, request *Request, reply *Reply) Entry {
		return Entry{Client: 1, Conn: conn, Request: request, Reply: reply, Call: call, Return: call + 1}
	}
	get := &Request{Kind: Get, Key: "k", Line: "gets k"}
	set := func(text string) *Request {
		return &Request{Kind: Store, Mode: Set, Key: "k", Value: text, Line: "set k"}
	}
	one := func() *Reply { return &Reply{Result: Done, Value: value("<1>"), Token: 7} }
	two := func() *Reply { return &Reply{Result: Done, Value: value("<2>"), Token: 9} }
	plain := func() *Reply { return &Reply{Result: Done, Value: value("<1>")} }
	stored := &Reply{Result: Done}
	stale := &Request{Kind: Delete, Stales: true, Key: "k", Line: "md k I"}
	number := &Request{Kind: Get, Key: "number-1", Line: "gets number-1"}
	step := &Request{Kind: Step, Key: "number-1", Line: "incr number-1 1"}
	five := func(token uint64) *Reply {
		return &Reply{Result: Done, Value: value("5000000"), Token: token}
	}
	six := func(token uint64) *Reply {
		return &Reply{Result: Done, Value: value("5000001"), Token: token}
	}
	for name, each := range map[string]struct {
		entries []Entry
		back    bool
	}{
		"forward":          {[]Entry{entry(1, 0, get, one()), entry(1, 2, get, two())}, false},
		"back":             {[]Entry{entry(1, 0, get, two()), entry(1, 2, get, one())}, true},
		"at the same time": {[]Entry{entry(1, 0, get, two()), entry(1, 1, get, one())}, false},
		"another one":      {[]Entry{entry(1, 0, get, two()), entry(2, 2, get, one())}, false},
		"without a token": {[]Entry{entry(2, 0, get, one()), entry(1, 0, get, two()),
			entry(1, 2, get, plain())}, true},
		"its own change": {[]Entry{entry(2, 0, get, two()), entry(1, 0, set("<2>"), stored),
			entry(1, 2, get, one())}, true},
		"a change of another": {[]Entry{entry(2, 0, set("<2>"), stored), entry(2, 4, get, two()),
			entry(1, 2, get, one())}, false},
		"a token given again": {[]Entry{entry(1, 0, set("<2>"), stored),
			entry(1, 2, get, &Reply{Result: Done, Token: 8}), entry(2, 4, stale, stored),
			entry(2, 6, get, two())}, false},
		"a token given again after it": {[]Entry{entry(2, 0, get, two()),
			entry(1, 0, set("<2>"), stored), entry(1, 2, get, one()), entry(2, 4, stale, stored)}, true},
		"a number reached again": {[]Entry{entry(1, 0, number, five(0)), entry(1, 2, step, six(8)),
			entry(2, 4, step, five(9))}, false},
	} {
		if found := backwards(each.entries); (found != "") != each.back {
			t.Errorf("%s: %q", name, found)
		}
	}
}

// An answer of a copy may be as old as it may, and no older.
func TestOldAnswers(t *testing.T) {
	history := newHistory(250 * time.Millisecond)
	value := func(text string) *string { return &text }
	add := func(request *Request, reply *Reply, call time.Duration) {
		history.note(Entry{Request: request, Reply: reply, Call: int64(call), Return: int64(call) + 1})
	}
	store := func(text string) *Request {
		return &Request{Kind: Store, Mode: Set, Key: "k", Value: text, Line: "set k"}
	}
	get := &Request{Kind: Get, Key: "k", Line: "get k"}
	add(store("<1>"), &Reply{Result: Done}, 0)
	add(store("<2>"), &Reply{Result: Done}, time.Second)
	add(get, &Reply{Result: Done, Value: value("<1>")}, 1200*time.Millisecond)
	check := func() bool { return porcupine.CheckOperations(model, operations(history.of("k"))) }
	if !check() {
		t.Error("it was right 200 ms before")
	}
	add(get, &Reply{Result: Done, Value: value("<1>")}, 1300*time.Millisecond)
	if check() {
		t.Error("it was not right for 300 ms")
	}
}
