package main

import (
	"fmt"
	"math/rand"
	"os"
	"sync"
	"time"
)

const (
	// Turns are given to all clients at once, so that their requests meet.
	turnsEvery = 20 * time.Millisecond
	// Half of the requests are about one key, which changes that often.
	hotFor = 150 * time.Millisecond
	// Longest pause between two faults that come at will.
	willMax = 1500 * time.Millisecond
	// Faults at will that may be there at the same time.
	atOnceMax = 2
	// How often the losses of the ring are read.
	lossesEvery = 50 * time.Millisecond
)

// Run is one history: a ring, its clients, and the faults.
type Run struct {
	options *Options
	ring    *Ring
	history *History
	tokens  *Tokens
	keys    []string
	dice    *rand.Rand
	began   time.Time
	turns   chan struct{}
	stops   chan struct{}
	once    sync.Once
	mutex   sync.Mutex
	failure error
	faults  []*Fault
	losses  *Losses
	// Orders that were taken.
	moves int
	// Reads that copies have answered, of the cells that ran in the end.
	copyReads int
}

func newRun(options *Options, ring *Ring, seed int64) *Run {
	run := &Run{
		options: options, ring: ring, history: newHistory(time.Duration(options.age) * time.Millisecond),
		tokens: &Tokens{seen: map[string][2]uint64{}},
		dice:   rand.New(rand.NewSource(seed)), began: time.Now(),
		turns: make(chan struct{}, options.clients), stops: make(chan struct{}),
		losses: newLosses(),
	}
	for at := range options.keys {
		kind := "text"
		if at%3 == 2 {
			kind = "number"
		}
		run.keys = append(run.keys, fmt.Sprintf("%s-%d-%d", kind, at, run.dice.Intn(1000)))
	}
	return run
}

func (r *Run) now() int64 { return int64(time.Since(r.began)) }

// key draws one. Some are hot for a moment.
func (r *Run) key(dice *Dice) string {
	if dice.Intn(2) == 0 {
		hot := r.now() / int64(hotFor)
		return r.keys[int(hot*7)%len(r.keys)]
	}
	return r.keys[dice.Intn(len(r.keys))]
}

// takeTurn waits until a client may send a request; false when the run stops.
func (r *Run) takeTurn() bool {
	select {
	case <-r.stops:
		return false
	case <-r.turns:
		return true
	}
}

// giveTurns lets the clients send so many requests in a second.
func (r *Run) giveTurns() {
	ticker := time.NewTicker(turnsEvery)
	defer ticker.Stop()
	start, given := time.Now(), 0
	for {
		select {
		case <-r.stops:
			return
		case <-ticker.C:
		}
		due := int(time.Since(start).Seconds() * float64(r.options.rate))
		for ; given < due; given++ {
			select {
			case r.turns <- struct{}{}:
			default:
			}
		}
	}
}

func (r *Run) stop() { r.once.Do(func() { close(r.stops) }) }

// fail stops the run, for what should not happen.
func (r *Run) fail(err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.failure == nil {
		r.failure = err
	}
}

func (r *Run) failed() error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.failure
}

// play runs clients and `faults` until there are enough of both.
func (r *Run) play(faults func() error) error {
	defer r.stop()
	var clients sync.WaitGroup
	for number := range r.options.clients {
		seed := rand.NewSource(r.dice.Int63())
		dice := &Dice{Rand: rand.New(seed), client: number, tokens: r.tokens}
		client := &Client{number: number, dice: dice, run: r}
		clients.Add(1)
		go func() {
			defer clients.Done()
			client.work()
		}()
	}
	clients.Add(2)
	go func() {
		defer clients.Done()
		r.giveTurns()
	}()
	go func() {
		defer clients.Done()
		r.losses.watch(r)
	}()
	err := faults()
	for err == nil && r.history.answered() < r.options.ops {
		time.Sleep(lookEvery)
		if err = r.failed(); err == nil {
			err = r.ring.hasEnded()
		}
	}
	if err == nil {
		if err = r.ring.healthy(healMax, 0); err != nil {
			err = fmt.Errorf("the ring has not healed: %w", err)
		}
	}
	r.stop()
	clients.Wait()
	if reports, bad := r.ring.reports(); bad == nil {
		for _, report := range reports {
			r.copyReads += report.number("copy_reads")
		}
	}
	if err == nil {
		err = r.failed()
	}
	if err == nil {
		err = r.readAll()
	}
	return err
}

// readAll reads each key through each cell, at the end.
func (r *Run) readAll() error {
	for through := range r.ring.cells {
		source := rand.NewSource(r.dice.Int63())
		client := &Client{number: r.options.clients, run: r, through: through}
		client.dice = &Dice{Rand: rand.New(source), client: client.number, tokens: r.tokens}
		if err := client.connectTo(through); err != nil {
			return fmt.Errorf("cell %d, at the end: %w", through+1, err)
		}
		for _, key := range r.keys {
			reply, err := client.ask(&Request{Kind: Get, Key: key, Line: "gets " + key})
			if err == nil && reply.Result <= Refused {
				err = fmt.Errorf("%q", reply.Line)
			}
			if err != nil {
				client.close()
				return fmt.Errorf("%s through cell %d, at the end: %w", key, through+1, err)
			}
		}
		client.close()
	}
	return nil
}

// makeFaults makes one fault after the other.
func (r *Run) makeFaults() error {
	if r.options.atWill {
		return r.makeFaultsAtWill()
	}
	for _, kind := range kindsFor(r.dice, r.ring.network, r.options.faults) {
		if err := r.ring.healthy(healMax, steadyFor); err != nil {
			return fmt.Errorf("the ring has not healed: %w", err)
		}
		fault := drawFault(r.dice, kind, len(r.ring.cells))
		if r.options.moves {
			r.order()
			time.Sleep(time.Duration(r.dice.Int63n(int64(aheadMax))))
		}
		if err := r.begin(fault); err != nil {
			return err
		}
		r.orders(fault.Lasts)
		if err := r.ring.finish(fault); err != nil {
			return err
		}
		if r.options.moves {
			if err := r.allStay(); err != nil {
				return err
			}
		}
		if err := r.failed(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) begin(fault *Fault) error {
	r.faults = append(r.faults, fault)
	if r.options.verbose {
		fmt.Fprintf(os.Stderr, "%8.3f s  %v\n", float64(r.now())/1e9, fault)
	}
	return r.ring.begin(fault)
}

// makeFaultsAtWill makes faults of processes, some of them at once, whatever the state of the ring.
func (r *Run) makeFaultsAtWill() error {
	for left := r.options.faults; left > 0; {
		time.Sleep(time.Duration(r.dice.Int63n(int64(willMax))))
		var faults []*Fault
		for _, place := range r.dice.Perm(len(r.ring.cells))[:1+r.dice.Intn(atOnceMax)] {
			fault := drawFault(r.dice, localKinds[r.dice.Intn(len(localKinds))], 1)
			fault.Cells[0] = place + 1
			faults = append(faults, fault)
		}
		for _, fault := range faults {
			if err := r.begin(fault); err != nil {
				return err
			}
		}
		for _, fault := range faults {
			r.orders(fault.Lasts)
			if err := r.ring.finish(fault); err != nil {
				return err
			}
		}
		if r.options.moves {
			if err := r.allStay(); err != nil {
				return err
			}
		}
		left -= len(faults)
		if err := r.failed(); err != nil {
			return err
		}
	}
	return nil
}
