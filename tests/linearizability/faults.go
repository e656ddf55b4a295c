package main

import (
	"fmt"
	"math"
	"math/rand"
	"time"
)

// Fault is one that a run makes, and ends again.
type Fault struct {
	Kind string
	// Places of the cells that it is about.
	Cells []int
	Lasts time.Duration
}

func (f *Fault) String() string {
	return fmt.Sprintf("%s %v for %v", f.Kind, f.Cells, f.Lasts.Round(time.Millisecond))
}

// The kinds of faults. The last ones need a network that can be cut.
const (
	// SIGKILL, and started again after a while, or at once.
	killed = "kill"
	// SIGSTOP, then SIGCONT.
	paused = "pause"
	// One cell and all others hear nothing of each other.
	apart = "apart"
	// One cell hears nobody. Nobody hears one cell.
	deaf = "deaf"
	mute = "mute"
	// Two cells hear nothing of each other. One of two does not hear the other.
	pair      = "pair"
	oneWay    = "one way"
	linksOnly = "links"
)

var (
	localKinds = []string{killed, paused}
	cutKinds   = []string{apart, deaf, mute, pair, oneWay, linksOnly}
)

const (
	pauseMin, pauseMax = 100 * time.Millisecond, 5 * time.Second
	cutMin, cutMax     = 200 * time.Millisecond, 3 * time.Second
	downMax            = 1500 * time.Millisecond
)

// between draws a time, as often below the geometric mean as above.
func between(dice *rand.Rand, from, to time.Duration) time.Duration {
	factor := math.Pow(float64(to)/float64(from), dice.Float64())
	return time.Duration(float64(from) * factor)
}

// kindsFor is a list of so many kinds, each as often as the others.
func kindsFor(dice *rand.Rand, network Network, faults int) []string {
	kinds := append([]string{}, localKinds...)
	if network.canCut() {
		// A cut of each second kind: the crash of a process is as likely as any cut.
		kinds = append(kinds, localKinds...)
		kinds = append(kinds, cutKinds...)
	}
	var drawn []string
	for len(drawn) < faults {
		dice.Shuffle(len(kinds), func(a, b int) { kinds[a], kinds[b] = kinds[b], kinds[a] })
		drawn = append(drawn, kinds...)
	}
	return drawn[:faults]
}

func drawFault(dice *rand.Rand, kind string, cells int) *Fault {
	order := dice.Perm(cells)
	fault := &Fault{Kind: kind, Cells: []int{order[0] + 1}}
	switch kind {
	case killed:
		if dice.Intn(2) == 0 {
			fault.Lasts = time.Duration(dice.Int63n(int64(downMax)))
		}
	case paused:
		fault.Lasts = between(dice, pauseMin, pauseMax)
	case pair, oneWay:
		fault.Cells = append(fault.Cells, order[1]+1)
		fault.Lasts = between(dice, cutMin, cutMax)
	default:
		fault.Lasts = between(dice, cutMin, cutMax)
	}
	return fault
}

// begin makes a fault.
func (r *Ring) begin(fault *Fault) error {
	victim := r.cells[fault.Cells[0]-1]
	var others []int
	for _, cell := range r.cells {
		if cell != victim {
			others = append(others, cell.place)
		}
	}
	switch fault.Kind {
	case killed:
		r.kill(victim)
		return nil
	case paused:
		return r.stop(victim, true)
	case pair:
		return r.cutBoth(fault.Cells[0], fault.Cells[1])
	case oneWay:
		return r.network.cut(fault.Cells[0], fault.Cells[1], false)
	}
	for _, other := range others {
		var err error
		switch fault.Kind {
		case apart:
			err = r.cutBoth(victim.place, other)
		case deaf:
			err = r.network.cut(other, victim.place, false)
		case mute:
			err = r.network.cut(victim.place, other, false)
		case linksOnly:
			err = r.network.cut(other, victim.place, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *Ring) cutBoth(one, other int) error {
	if err := r.network.cut(one, other, false); err != nil {
		return err
	}
	return r.network.cut(other, one, false)
}

// finish ends a fault.
func (r *Ring) finish(fault *Fault) error {
	victim := r.cells[fault.Cells[0]-1]
	switch fault.Kind {
	case killed:
		return r.start(victim)
	case paused:
		return r.stop(victim, false)
	default:
		return r.network.join()
	}
}
