package main

import (
	"fmt"
	"math/rand"
	"strconv"
	"strings"
)

// Kind is what a request does to its key, whatever its spelling.
type Kind uint8

// The kinds. Lose is no request: it is the loss of the range of a key, as the ring has reported it.
const (
	Get Kind = iota
	Store
	Delete
	Step
	Touch
	Flush
	Lose
)

// Mode is the condition under which a value is stored, and how.
type Mode byte

// The modes, by the letters that `ms` gives them.
const (
	Set     Mode = 'S'
	Add     Mode = 'E'
	Replace Mode = 'R'
	Append  Mode = 'A'
	Prepend Mode = 'P'
)

// Lifetime is how long an item lives: nothing expires in a run, but which of the two an item has
// shows whether a touch was lost.
type Lifetime uint8

// The lifetimes. Keep leaves the one that the item has.
const (
	Keep Lifetime = iota
	Forever
	Long
)

// longSeconds outlasts every run.
const longSeconds = 86400

func (l Lifetime) seconds() int {
	if l == Long {
		return longSeconds
	}
	return 0
}

// Request is what a client sends about one key.
type Request struct {
	Kind Kind
	Key  string
	// What was sent, without a value.
	Line  string
	Mode  Mode
	Value string
	Flags uint32
	Life  Lifetime
	// The token that the item must have; 0 for none.
	Token uint64
	// How far a number is moved.
	Delta uint64
	Down  bool
	// The value that a missing item gets: of `ma` with `N`. Empty for none.
	Initial string
	// `mg` with `N`: a missing item is made, empty.
	Makes bool
	// `mg`: it may win the token of an item that is stale.
	Wins bool
	// `md` with `I` and with `x`.
	Stales, Empties bool
}

// changes says whether a request without an answer may have changed something.
func (r *Request) changes() bool {
	return r.Kind != Get || r.Life != Keep || r.Makes || r.Wins
}

// isForCopies says whether a copy may answer a request, where copies answer reads.
func (r *Request) isForCopies() bool {
	return r.Kind == Get && r.Life == Keep && !r.Makes
}

// Dice draws the requests of one client.
type Dice struct {
	*rand.Rand
	client int
	drawn  uint64
	tokens *Tokens
}

// Share of the requests in which one names a token that is known, in percent.
const tokenPercent = 70

// numberStep lies between two numbers that are stored: no increments bridge it.
const numberStep = 1_000_000

// deltaMax bounds one increment. Below it, numberStep is not crossed in any run.
const deltaMax = 50

// clientsMax bounds the clients, so that no two store the same number.
const clientsMax = 1000

// fresh is a number that no other request of the run has.
func (d *Dice) fresh() uint64 {
	d.drawn++
	return d.drawn*clientsMax + uint64(d.client)
}

// piece is a value that no other request stores; it begins with `<` and ends with `>`.
func (d *Dice) piece() string {
	name := strconv.FormatUint(d.fresh(), 36)
	switch d.Intn(50) {
	case 0:
		return "<" + name + "." + strings.Repeat(name, 3000/len(name)) + ">"
	case 1:
		return "<" + name + ".\r\nEND\r\n>"
	}
	return "<" + name + ">"
}

// number is a number that no other request stores, with room below it and above it.
func (d *Dice) number() string {
	return strconv.FormatUint((d.fresh()+10_000)*numberStep+numberStep/2, 10)
}

func (d *Dice) life() Lifetime {
	if d.Intn(4) == 0 {
		return Long
	}
	return Forever
}

// isNumber says what a key holds: numbers, or text.
func isNumber(key string) bool {
	return strings.HasPrefix(key, "number-")
}

// draw makes a request about `key`.
func (d *Dice) draw(key string) *Request {
	chance := d.Intn(100)
	switch {
	case chance < 28:
		return d.get(key)
	case chance < 68:
		return d.store(key)
	case chance < 80:
		return d.delete(key)
	case chance < 90 || isNumber(key) && chance < 97:
		return d.step(key)
	default:
		return d.touch(key)
	}
}

func (d *Dice) get(key string) *Request {
	r := &Request{Kind: Get, Key: key}
	switch d.Intn(6) {
	case 0:
		r.Line = "get " + key
	case 1, 2:
		r.Line = "gets " + key
	case 3:
		r.Life = d.life()
		r.Line = fmt.Sprintf("%s %d %s", d.one("gat", "gats"), r.Life.seconds(), key)
	default:
		r.Wins = true
		r.Line = "mg " + key + d.some(" v", " c", " f", " t", " k", " s", " O"+key)
		switch d.Intn(8) {
		case 0:
			if !isNumber(key) {
				r.Makes = true
				r.Life = d.life()
				r.Line += fmt.Sprintf(" N%d", r.Life.seconds())
			}
		case 1:
			r.Life = d.life()
			r.Line += fmt.Sprintf(" T%d", r.Life.seconds())
		}
	}
	return r
}

func (d *Dice) store(key string) *Request {
	r := &Request{Kind: Store, Key: key, Mode: Set, Flags: d.Uint32(), Life: d.life()}
	r.Value = d.piece()
	if isNumber(key) {
		r.Value = d.number()
	}
	if d.Intn(3) == 0 {
		r.Token = d.token(key)
	} else {
		modes := []Mode{Set, Set, Add, Add, Replace, Append, Prepend}
		if isNumber(key) {
			modes = modes[:5]
		}
		r.Mode = modes[d.Intn(len(modes))]
	}
	words := fmt.Sprintf("%s %d %d %d", key, r.Flags, r.Life.seconds(), len(r.Value))
	classic := map[Mode]string{
		Set: "set", Add: "add", Replace: "replace", Append: "append", Prepend: "prepend",
	}
	switch {
	case d.Intn(2) == 0:
		r.Line = fmt.Sprintf("ms %s %d T%d F%d M%c%s", key, len(r.Value), r.Life.seconds(),
			r.Flags, r.Mode, d.some(" c", " k", " O"+key))
		if r.Token != 0 {
			r.Line += fmt.Sprintf(" C%d", r.Token)
		}
	case r.Token != 0:
		r.Line = fmt.Sprintf("cas %s %d", words, r.Token)
	default:
		r.Line = classic[r.Mode] + " " + words
	}
	if r.Mode == Append || r.Mode == Prepend {
		// The item keeps its flags and its lifetime.
		r.Life = Keep
	}
	return r
}

func (d *Dice) delete(key string) *Request {
	r := &Request{Kind: Delete, Key: key, Line: "delete " + key}
	if d.Intn(2) == 0 {
		return r
	}
	r.Line = "md " + key + d.some(" k", " O"+key)
	if d.Intn(3) == 0 {
		r.Token = d.token(key)
		r.Line += fmt.Sprintf(" C%d", r.Token)
	}
	if !isNumber(key) {
		r.Stales = d.Intn(2) == 0
		r.Empties = d.Intn(6) == 0
	}
	if r.Stales {
		r.Line += " I"
		if d.Intn(2) == 0 {
			r.Life = d.life()
			r.Line += fmt.Sprintf(" T%d", r.Life.seconds())
		}
	}
	if r.Empties {
		r.Line += " x"
	}
	return r
}

func (d *Dice) step(key string) *Request {
	r := &Request{Kind: Step, Key: key, Delta: uint64(1 + d.Intn(deltaMax)), Down: d.Intn(2) == 0}
	if d.Intn(2) == 0 {
		verb := "incr"
		if r.Down {
			verb = "decr"
		}
		r.Line = fmt.Sprintf("%s %s %d", verb, key, r.Delta)
		return r
	}
	mode := byte('I')
	if r.Down {
		mode = 'D'
	}
	r.Line = fmt.Sprintf("ma %s D%d M%c%s", key, r.Delta, mode, d.some(" v", " c", " t", " k"))
	switch {
	case isNumber(key) && d.Intn(3) == 0:
		r.Life, r.Initial = d.life(), d.number()
		r.Line += fmt.Sprintf(" N%d J%s", r.Life.seconds(), r.Initial)
	case d.Intn(3) == 0:
		r.Token = d.token(key)
		r.Line += fmt.Sprintf(" C%d", r.Token)
	}
	return r
}

func (d *Dice) touch(key string) *Request {
	r := &Request{Kind: Touch, Key: key, Life: d.life()}
	r.Line = fmt.Sprintf("touch %s %d", key, r.Life.seconds())
	return r
}

// token is one that was seen with the key, most often the last one.
func (d *Dice) token(key string) uint64 {
	if token := d.tokens.last(key); token != 0 && d.Intn(100) < tokenPercent {
		return token
	}
	if token := d.tokens.old(key); token != 0 && d.Intn(2) == 0 {
		return token
	}
	return 1 + uint64(d.Intn(9))
}

// one of `choices`.
func (d *Dice) one(choices ...string) string {
	return choices[d.Intn(len(choices))]
}

// some of `flags`, each of them or not.
func (d *Dice) some(flags ...string) string {
	var chosen strings.Builder
	for _, flag := range flags {
		if d.Intn(2) == 0 {
			chosen.WriteString(flag)
		}
	}
	return chosen.String()
}
