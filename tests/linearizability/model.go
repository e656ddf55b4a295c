package main

import (
	"fmt"
	"strconv"

	"github.com/anishathalye/porcupine"
)

// Item is what a key holds. Items are compared with ==.
type Item struct {
	IsThere bool
	Value   string
	Flags   uint32
	Life    Lifetime
	// Its token; 0 while no reply has shown it.
	Token uint64
	// A token that the key has had before: every later one is larger. A request can name a token
	// only after a reply has shown it, so one that is not known yet is none of those.
	Past uint64
	// It was made stale; the token to renew it was given away.
	Stale, Sent bool
}

// gone is what stays when there is no item.
func (i Item) gone() Item {
	return Item{Past: max(i.Past, i.Token)}
}

// renewed is `i` with a token that nobody has seen.
func (i Item) renewed() Item {
	i.Past, i.Token = max(i.Past, i.Token), 0
	return i
}

func (i Item) lives(life Lifetime) Item {
	if life != Keep {
		i.Life = life
	}
	return i
}

// fits says whether the item has `token`, and what is answered if not.
func (i Item) fits(token uint64) (Result, bool) {
	switch {
	case token == 0 || i.IsThere && i.Token == token:
		return Done, true
	case !i.IsThere:
		return Missing, false
	}
	return Exists, false
}

// apply executes `r`: what the key holds then, and what is answered.
func (i Item) apply(r *Request) (Item, Result) {
	switch r.Kind {
	case Get:
		return i.get(r)
	case Store:
		return i.store(r)
	case Delete:
		return i.delete(r)
	case Step:
		return i.step(r)
	case Touch:
		if !i.IsThere {
			return i, Missing
		}
		return i.lives(r.Life), Done
	case Flush:
		return i.gone(), Done
	default:
		return Item{}, Done
	}
}

func (i Item) get(r *Request) (Item, Result) {
	switch {
	case !i.IsThere && !r.Makes:
		return i, Missing
	case !i.IsThere:
		// Whoever makes it has won.
		return Item{IsThere: true, Life: r.Life, Past: i.Past, Sent: true}, Done
	}
	if r.Wins && i.Stale {
		i.Sent = true
	}
	if r.Makes {
		// `N` is about a missing item alone.
		return i, Done
	}
	return i.lives(r.Life), Done
}

func (i Item) store(r *Request) (Item, Result) {
	if result, ok := i.fits(r.Token); !ok {
		return i, result
	}
	if r.Mode == Add && i.IsThere || r.Mode != Add && r.Mode != Set && !i.IsThere {
		return i, NotStored
	}
	old, i := i, i.gone()
	i.IsThere, i.Value, i.Flags, i.Life = true, r.Value, r.Flags, r.Life
	switch r.Mode {
	case Append:
		i.Value, i.Flags, i.Life = old.Value+r.Value, old.Flags, old.Life
	case Prepend:
		i.Value, i.Flags, i.Life = r.Value+old.Value, old.Flags, old.Life
	}
	return i, Done
}

func (i Item) delete(r *Request) (Item, Result) {
	if !i.IsThere {
		return i, Missing
	}
	if result, ok := i.fits(r.Token); !ok {
		return i, result
	}
	if !r.Stales && !r.Empties {
		return i.gone(), Done
	}
	i = i.renewed().lives(r.Life)
	if r.Empties {
		i.Value, i.Flags, i.Stale, i.Sent = "", 0, false, false
	}
	if r.Stales {
		i.Stale, i.Sent = true, false
	}
	return i, Done
}

func (i Item) step(r *Request) (Item, Result) {
	if !i.IsThere && r.Initial != "" {
		return Item{IsThere: true, Value: r.Initial, Life: r.Life, Past: i.Past}, Done
	}
	if !i.IsThere {
		return i, Missing
	}
	if result, ok := i.fits(r.Token); !ok {
		return i, result
	}
	number, err := strconv.ParseUint(i.Value, 10, 64)
	switch {
	case err != nil:
		return i, NotNumber
	case r.Down:
		number -= r.Delta
	default:
		number += r.Delta
	}
	i = i.renewed()
	i.Value = strconv.FormatUint(number, 10)
	return i, Done
}

// shows compares `y` with the item `i` that it shows, and learns its token.
func (i Item) shows(r *Request, y *Reply) (Item, bool) {
	if y.Value != nil && *y.Value != i.Value ||
		y.Flags != nil && *y.Flags != i.Flags ||
		y.Life != Keep && y.Life != i.Life {
		return i, false
	}
	if y.Token != 0 {
		if i.Token != 0 && y.Token != i.Token || i.Token == 0 && y.Token <= i.Past {
			return i, false
		}
		i.Token = y.Token
	}
	return i, true
}

// marks compares the flags of an `mg` reply with the item before it.
func (i Item) marks(r *Request, y *Reply) bool {
	if r.Kind != Get || !y.IsMeta {
		return true
	}
	won := !i.IsThere || i.Stale && !i.Sent
	stale := i.IsThere && i.Stale
	sent := i.IsThere && i.Sent
	return y.Won == won && y.Stale == stale && y.Sent == sent
}

// model is that of one key.
var model = porcupine.Model{
	Init: func() interface{} { return Item{} },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		before, request, reply := state.(Item), input.(*Request), output.(*Reply)
		after, result := before.apply(request)
		if reply.Result == Open {
			return true, after
		}
		if reply.Result != result || result == Done && !before.marks(request, reply) {
			return false, before
		}
		if result != Done {
			return true, after
		}
		after, ok := after.shows(request, reply)
		return ok, after
	},
	DescribeOperation: func(input, output interface{}) string {
		return describe(input.(*Request), output.(*Reply))
	},
	DescribeState: func(state interface{}) string { return state.(Item).String() },
}

func describe(r *Request, y *Reply) string {
	line := r.Line
	if r.Kind == Store {
		line += fmt.Sprintf(" %.40q", r.Value)
	}
	answer := y.Line
	if answer == "" {
		answer = y.Result.String()
	}
	if y.Value != nil && *y.Value != y.Line {
		answer += fmt.Sprintf(" %.80q", *y.Value)
	}
	return line + " -> " + answer
}

func (i Item) String() string {
	if !i.IsThere {
		return "nothing"
	}
	text := fmt.Sprintf("%.80q flags %d", i.Value, i.Flags)
	if i.Token != 0 {
		text += fmt.Sprintf(" token %d", i.Token)
	}
	if i.Life == Long {
		text += " long"
	}
	if i.Stale {
		text += " stale"
	}
	return text
}
