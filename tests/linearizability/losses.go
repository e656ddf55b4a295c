package main

import (
	"sync"
	"time"
)

// Loss is that of all items of a range, as the ring has reported it.
type Loss struct {
	Range string
	// The last moment at which it was not reported yet.
	After int64
}

// Losses are those of one run.
type Losses struct {
	mutex sync.Mutex
	seen  map[string]int
	asked map[string]int64
	list  []Loss
	last  Report
}

func newLosses() *Losses {
	return &Losses{seen: map[string]int{}, asked: map[string]int64{}}
}

// watch reads what the cells report, until the run stops.
func (l *Losses) watch(run *Run) {
	ticker := time.NewTicker(lossesEvery)
	defer ticker.Stop()
	for {
		l.look(run)
		select {
		case <-run.stops:
			l.look(run)
			return
		case <-ticker.C:
		}
	}
}

// look asks all cells that answer. One that has an old map may say that there was no loss: so a loss
// lies after the last time at which all cells answered and none knew of it.
func (l *Losses) look(run *Run) {
	at := run.now()
	most := map[string]int{}
	var last Report
	answers := 0
	for _, cell := range run.ring.cells {
		report, err := askReport(cell.clients)
		if err != nil {
			continue
		}
		for _, number := range report.ranges() {
			losses := report.number("range:" + number + ":losses")
			most[number] = max(most[number], losses)
			last = report
		}
		answers++
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for number, losses := range most {
		for ; l.seen[number] < losses; l.seen[number]++ {
			l.list = append(l.list, Loss{Range: number, After: l.asked[number]})
		}
		if answers == len(run.ring.cells) {
			l.asked[number] = at
		}
	}
	if last != nil {
		l.last = last
	}
}

// of are the losses of the range of a key, as entries of its history.
func (l *Losses) of(key string) []Entry {
	var entries []Entry
	for _, loss := range l.list {
		if l.last.rangeOf(key) == loss.Range {
			request := &Request{Kind: Lose, Key: key, Line: "(its range is lost)"}
			entries = append(entries, Entry{
				Request: request, Reply: &Reply{Result: Open}, Call: loss.After, Return: never,
			})
		}
	}
	return entries
}
