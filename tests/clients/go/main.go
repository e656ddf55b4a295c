// Command clients runs gomemcache (classic text protocol) against HOST:PORT, value by value and
// byte for byte. It stops at the first difference; if there is none, its last line is
// `N checks passed`. It empties the server.
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

const (
	timeout     = 10 * time.Second
	keyBytesMax = 250
	// The item limit is 1 MiB including its header and key.
	valueBytesLarge    = 1024*1024 - 1024
	valueBytesTooLarge = 1024*1024 + 1
	multigetKeys       = 500
	// No item outlives its time by more than this, whatever the granularity of the server's clock.
	expiryDeadline = 8 * time.Second
	poll           = 50 * time.Millisecond
)

type value struct {
	name  string
	bytes []byte
}

// suite holds the client under test and counts what held.
type suite struct {
	*memcache.Client
	checks int
}

func main() {
	if len(os.Args) != 2 || !strings.Contains(os.Args[1], ":") {
		fail("usage: %s HOST:PORT", os.Args[0])
	}
	client := memcache.New(os.Args[1])
	client.Timeout = timeout
	s := &suite{Client: client}
	s.is("flush_all", client.FlushAll(), nil)
	large := incompressible(valueBytesLarge)
	s.storage(large)
	s.compareAndSwap()
	s.counters()
	s.multigets(large)
	s.flags()
	s.limits(large)
	s.lifetimes()
	s.server(os.Args[1])
	fmt.Printf("%d checks passed\n", s.checks)
}

func (s *suite) storage(large []byte) {
	for _, v := range values(large) {
		s.is("set "+v.name, s.Set(item("s", v.bytes)), nil)
		s.holds("get "+v.name, "s", v.bytes)
	}
	s.missing("get of a missing key", "missing")
	s.is("add to a present key", s.Add(item("s", []byte("no"))), memcache.ErrNotStored)
	s.is("add to a free key", s.Add(item("added", []byte("yes"))), nil)
	s.holds("the added value", "added", []byte("yes"))
	s.is("replace a missing key", s.Replace(item("missing", nil)), memcache.ErrNotStored)
	s.is("replace a present key", s.Replace(item("added", []byte("\x00new\r\n"))), nil)
	s.is("append", s.Append(item("added", []byte("\r\ntail"))), nil)
	s.is("prepend", s.Prepend(item("added", []byte("head\x00"))), nil)
	s.holds("the joined value", "added", []byte("head\x00\x00new\r\n\r\ntail"))
	s.is("append to a missing key", s.Append(item("missing", nil)), memcache.ErrNotStored)
	s.is("prepend to a missing key", s.Prepend(item("missing", nil)), memcache.ErrNotStored)
	s.missing("nothing was made on the way", "missing")
	s.is("delete", s.Delete("added"), nil)
	s.is("delete again", s.Delete("added"), memcache.ErrCacheMiss)
	s.missing("the deleted key", "added")
}

func (s *suite) compareAndSwap() {
	s.is("set", s.Set(item("c", []byte("first"))), nil)
	mine, theirs := s.fetch("c"), s.fetch("c")
	s.that("two reads, one token", mine.CasID == theirs.CasID)
	mine.Value = []byte("second")
	s.is("cas with the token", s.CompareAndSwap(mine), nil)
	theirs.Value = []byte("third")
	s.is("cas with the token spent", s.CompareAndSwap(theirs), memcache.ErrCASConflict)
	s.holds("the swapped value", "c", []byte("second"))
	s.is("delete", s.Delete("c"), nil)
	s.is("cas on a missing key", s.CompareAndSwap(theirs), memcache.ErrCacheMiss)
}

func (s *suite) counters() {
	_, err := s.Increment("n", 1)
	s.is("incr a missing key", err, memcache.ErrCacheMiss)
	s.is("set", s.Set(item("n", []byte("9"))), nil)
	s.counts("incr over a digit", s.Increment, 1, 10)
	s.counts("decr over a digit", s.Decrement, 1, 9)
	s.counts("decr stops at zero", s.Decrement, 1000, 0)
	s.is("set", s.Set(item("n", []byte("18446744073709551615"))), nil)
	s.counts("incr wraps at 64 bits", s.Increment, 2, 1)
	s.is("set", s.Set(item("n", []byte("word"))), nil)
	_, err = s.Increment("n", 1)
	s.that("incr a word is an error", err != nil && strings.Contains(err.Error(), "non-numeric"))
	s.holds("the word is unharmed", "n", []byte("word"))
}

func (s *suite) multigets(large []byte) {
	var keys []string
	for n := range multigetKeys {
		key := fmt.Sprintf("m%d", n)
		s.is("set "+key, s.Set(item(key, large[n:n+n%300])), nil)
		keys = append(keys, key, fmt.Sprintf("absent%d", n))
	}
	found, err := s.GetMulti(keys)
	s.is("GetMulti", err, nil)
	s.that("GetMulti finds what is there, and no more", len(found) == multigetKeys)
	tokens := map[uint64]bool{}
	for n := range multigetKeys {
		got := found[fmt.Sprintf("m%d", n)]
		s.that("GetMulti finds every key", got != nil)
		s.same(got.Key, got.Value, large[n:n+n%300])
		tokens[got.CasID] = true
	}
	s.that("tokens differ", len(tokens) == multigetKeys)
}

func (s *suite) flags() {
	for _, flags := range []uint32{0, 1, 65535, 65536, 1<<32 - 1} {
		s.is("set", s.Set(&memcache.Item{Key: "f", Value: []byte("v"), Flags: flags}), nil)
		s.that(fmt.Sprintf("flags %d", flags), s.fetch("f").Flags == flags)
	}
}

func (s *suite) limits(large []byte) {
	s.is("set a large value", s.Set(item("large", large)), nil)
	s.holds("get a large value", "large", large)
	longKey := strings.Repeat("k", keyBytesMax)
	s.is("set a 250-byte key", s.Set(item(longKey, []byte("v"))), nil)
	s.holds("get a 250-byte key", longKey, []byte("v"))
	s.is("set", s.Set(item("big", []byte("old"))), nil)
	err := s.Set(item("big", make([]byte, valueBytesTooLarge)))
	s.that("set a value too large is an error", err != nil && strings.Contains(err.Error(), "large"))
	s.missing("the old value is gone", "big")
	s.holds("the client still serves", "large", large)
}

func (s *suite) lifetimes() {
	for _, key := range []string{"touched", "fetched", "brief"} {
		s.is("set", s.Set(&memcache.Item{Key: key, Value: []byte("v"), Expiration: 2}), nil)
	}
	s.is("set", s.Set(&memcache.Item{Key: "long", Value: []byte("v"), Expiration: 1000}), nil)
	s.holds("not yet expired", "brief", []byte("v"))
	s.is("touch", s.Touch("touched", 1000), nil)
	s.is("touch a missing key", s.Touch("missing", 1000), memcache.ErrCacheMiss)
	got, err := s.GetAndTouch("fetched", 1000)
	s.is("get and touch", err, nil)
	s.same("get and touch", got.Value, []byte("v"))
	_, err = s.GetAndTouch("missing", 1000)
	s.is("get and touch a missing key", err, memcache.ErrCacheMiss)
	s.is("set", s.Set(&memcache.Item{Key: "past", Expiration: 1_000_000_000}), nil)
	s.missing("a date long past", "past")
	s.is("set", s.Set(&memcache.Item{Key: "negative", Expiration: -1}), nil)
	s.missing("a negative lifetime", "negative")
	s.is("touch to a second", s.Touch("long", 1), nil)
	s.gone("expiry after set", "brief")
	s.gone("expiry after touch", "long")
	s.holds("touch lengthened a life", "touched", []byte("v"))
	s.holds("get and touch lengthened a life", "fetched", []byte("v"))
}

func (s *suite) server(address string) {
	s.is("version", s.Ping(), nil)
	other := memcache.New(address)
	other.Timeout = timeout
	s.is("set elsewhere", other.Set(item("other", []byte("v"))), nil)
	s.holds("another connection", "other", []byte("v"))
	s.is("flush_all", s.FlushAll(), nil)
	for _, key := range []string{"s", "large", "other"} {
		s.missing("after flush_all", key)
	}
	s.is("set after flush_all", s.Set(item("s", []byte("v"))), nil)
	s.holds("get after flush_all", "s", []byte("v"))
	s.is("close", other.Close(), nil)
}

// values are the ones that a parser might stumble over.
func values(large []byte) []value {
	every := make([]byte, 256*5)
	for n := range every {
		every[n] = byte(n)
	}
	return []value{
		{"empty", []byte{}},
		{"one byte", []byte("x")},
		{"a marked value", []byte("byte-for-byte")},
		{"line ends", []byte("\r\nfirst\r\nsecond\n\r\r\n")},
		{"nuls", []byte("\x00head\x00\x00tail\x00")},
		{"every byte", every},
		{"a reply", []byte("VALUE fake 0 3\r\nxyz\r\nEND\r\n")},
		{"a command", []byte("quit\r\nflush_all\r\n")},
		{"just past a packet", large[:1461]},
		{"past most buffers", large[:70_001]},
	}
}

// incompressible bytes, the same in every run.
func incompressible(size int) []byte {
	var out []byte
	for n := 0; len(out) < size; n++ {
		block := sha256.Sum256(fmt.Appendf(nil, "%d", n))
		out = append(out, block[:]...)
	}
	return out[:size]
}

func item(key string, value []byte) *memcache.Item {
	return &memcache.Item{Key: key, Value: value}
}

func (s *suite) fetch(key string) *memcache.Item {
	got, err := s.Get(key)
	s.is("get "+key, err, nil)
	return got
}

func (s *suite) holds(what, key string, want []byte) {
	got, err := s.Get(key)
	s.is(what, err, nil)
	s.same(what, got.Value, want)
}

func (s *suite) missing(what, key string) {
	_, err := s.Get(key)
	s.is(what, err, memcache.ErrCacheMiss)
}

// gone holds once the key is missing, however long that takes up to the deadline.
func (s *suite) gone(what, key string) {
	for deadline := time.Now().Add(expiryDeadline); ; time.Sleep(poll) {
		_, err := s.Get(key)
		if errors.Is(err, memcache.ErrCacheMiss) {
			s.checks++
			return
		}
		if err != nil || time.Now().After(deadline) {
			fail("%s: got %v, want a miss within %v", what, err, expiryDeadline)
		}
	}
}

func (s *suite) counts(what string, step func(string, uint64) (uint64, error), by, want uint64) {
	got, err := step("n", by)
	s.is(what, err, nil)
	s.that(fmt.Sprintf("%s: got %d, want %d", what, got, want), got == want)
}

func (s *suite) is(what string, got, want error) {
	if !errors.Is(got, want) {
		fail("%s: got %v, want %v", what, got, want)
	}
	s.checks++
}

func (s *suite) same(what string, got, want []byte) {
	if !bytes.Equal(got, want) {
		fail("%s: got %.80q (%d bytes), want %.80q (%d bytes)", what, got, len(got), want, len(want))
	}
	s.checks++
}

func (s *suite) that(what string, held bool) {
	if !held {
		fail("%s: does not hold", what)
	}
	s.checks++
}

func fail(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}
