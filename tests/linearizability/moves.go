package main

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
)

const (
	// An order comes that long before a fault, at most.
	aheadMax = 30 * time.Millisecond
	// Between two orders while a fault lasts.
	orderMin, orderMax = 20 * time.Millisecond, 300 * time.Millisecond
	// Of ten orders, how many are about ranges; the others are about cells.
	ofRanges = 7
)

// orders has ranges handed over, and cells leave and stay, for that long.
func (r *Run) orders(lasts time.Duration) {
	until := time.Now().Add(lasts)
	for r.options.moves {
		pause := between(r.dice, orderMin, orderMax)
		if left := time.Until(until); pause >= left {
			break
		}
		time.Sleep(pause)
		r.order()
	}
	time.Sleep(time.Until(until))
}

// order gives one at some cell, by the map that this has. One that does not answer gets none.
func (r *Run) order() {
	cell := r.ring.cells[r.dice.Intn(len(r.ring.cells))]
	report, err := askReport(cell.clients)
	ranges := []string{}
	if err == nil {
		ranges = report.ranges()
		slices.Sort(ranges)
	}
	if len(ranges) == 0 {
		return
	}
	of, other := ranges[r.dice.Intn(len(ranges))], 1+r.dice.Intn(len(r.ring.cells))
	number := func(name string) int { return report.number("range:" + of + ":" + name) }
	words := fmt.Sprintf("move %s %d %d %d", of, number("epoch"), number("config"), other)
	if r.dice.Intn(10) >= ofRanges {
		words = leaveOrStay(report, other)
	}
	if answer, err := askOnce(cell.clients, "stats ring "+words); err == nil && answer == "OK" {
		r.moves++
	}
}

// leaveOrStay is the order that empties a cell, or has it stay where it leaves.
func leaveOrStay(report Report, cell int) string {
	start := report.number(fmt.Sprintf("cell:%d:start", cell))
	if report[fmt.Sprintf("cell:%d:leaves", cell)] != "" {
		return fmt.Sprintf("stay %d %d", cell, start)
	}
	return fmt.Sprintf("leave %d %d drained", cell, start)
}

// allStay has all cells stay that leave.
func (r *Run) allStay() error {
	for until := time.Now().Add(healMax); ; time.Sleep(lookEvery) {
		reports, err := r.ring.reports()
		leaving := false
		for at, report := range reports {
			for name := range report {
				number, ok := strings.CutSuffix(strings.TrimPrefix(name, "cell:"), ":leaves")
				if !ok || err != nil {
					continue
				}
				leaving = true
				words := fmt.Sprintf("stay %s %d", number, report.number("cell:"+number+":start"))
				// It is asked for again until no map says otherwise.
				_, _ = askOnce(r.ring.cells[at].clients, "stats ring "+words)
			}
		}
		if err == nil && !leaving {
			return nil
		}
		if time.Now().After(until) {
			return fmt.Errorf("cells leave still after %v (%v)", healMax, err)
		}
		if err := r.ring.hasEnded(); err != nil {
			return err
		}
	}
}

// askOnce is the answer to a request of one line.
func askOnce(address, request string) (string, error) {
	conn, err := net.DialTimeout("tcp", address, reportMax)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(reportMax)); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte(request + "\r\n")); err != nil {
		return "", err
	}
	return readLine(bufio.NewReader(conn))
}
