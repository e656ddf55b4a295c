package main

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// probePause lies between two requests of a probe: the resolution of what probes measure.
const probePause = 25 * time.Millisecond

// Probe is a client that asks one cell for one key, again and again: one sends a counter as its
// value, the other reads it.
type Probe struct {
	cell      *Cell
	rangeName string
	key       string
	mutex     sync.Mutex
	// The counters that were acknowledged last and sent last, and those without an answer.
	acked, sent int
	open        map[int]bool
	reads       Probed
	writes      Probed
}

// Probed is what one of the two has seen.
type Probed struct {
	// When each success came, in nanoseconds since the start of the run.
	successes []int64
	// Errors, by their text.
	errors map[string]int
	// Reads of a value that was acknowledged to be replaced before they were asked.
	stale []string
}

func newProbe(cell *Cell, report Report, name string) *Probe {
	probe := &Probe{cell: cell, rangeName: name, open: map[int]bool{}}
	probe.reads.errors, probe.writes.errors = map[string]int{}, map[string]int{}
	for number := 0; probe.key == "" || report.rangeOf(probe.key) != name; number++ {
		probe.key = fmt.Sprintf("probe-%d-%d", cell.place, number)
	}
	return probe
}

// run asks until the run stops.
func (p *Probe) run(run *Run, probed *Probed, ask func(*bufio.Reader, net.Conn) (string, error)) {
	var conn net.Conn
	var reader *bufio.Reader
	for {
		select {
		case <-run.stops:
			if conn != nil {
				conn.Close()
			}
			return
		case <-time.After(probePause):
		}
		var err error
		if conn == nil {
			conn, err = net.DialTimeout("tcp", p.cell.clients, connectMax)
			if err != nil {
				conn = nil
				probed.errors["no connection"]++
				continue
			}
			reader = bufio.NewReader(conn)
		}
		// An error shows at the next read or write.
		_ = conn.SetDeadline(time.Now().Add(answerMax))
		text, err := ask(reader, conn)
		switch {
		case err != nil:
			conn.Close()
			conn = nil
			probed.errors["no answer"]++
		case text != "":
			probed.errors[withoutNumbers(text)]++
		default:
			probed.successes = append(probed.successes, run.now())
		}
	}
}

// write sends the next counter. Returns the error line, if there is one.
func (p *Probe) write(reader *bufio.Reader, conn net.Conn) (string, error) {
	p.mutex.Lock()
	p.sent++
	counter := p.sent
	p.open[counter] = true
	p.mutex.Unlock()
	value := strconv.Itoa(counter)
	_, err := fmt.Fprintf(conn, "set %s 0 0 %d\r\n%s\r\n", p.key, len(value), value)
	if err != nil {
		return "", err
	}
	line, err := readLine(reader)
	if err != nil {
		return "", err
	}
	if line != "STORED" {
		return line, nil
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.acked = counter
	delete(p.open, counter)
	return "", nil
}

// read reads the counter, and compares it with what was acknowledged before.
func (p *Probe) read(reader *bufio.Reader, conn net.Conn) (string, error) {
	p.mutex.Lock()
	before := p.acked
	p.mutex.Unlock()
	if _, err := fmt.Fprintf(conn, "get %s\r\n", p.key); err != nil {
		return "", err
	}
	line, err := readLine(reader)
	if err != nil {
		return "", err
	}
	counter := 0
	if strings.HasPrefix(line, "VALUE ") {
		value, err := readLine(reader)
		if err != nil {
			return "", err
		}
		if counter, err = strconv.Atoi(value); err != nil {
			return "", err
		}
		if line, err = readLine(reader); err != nil {
			return "", err
		}
	}
	if line != "END" {
		return line, nil
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if counter < before && !p.open[counter] {
		p.reads.stale = append(p.reads.stale, fmt.Sprintf("%s through cell %d: %d after %d",
			p.key, p.cell.place, counter, before))
	}
	return "", nil
}

// readOnce reads the counter through a cell.
func (p *Probe) readOnce(cell *Cell) (string, error) {
	conn, err := net.DialTimeout("tcp", cell.clients, connectMax)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answerMax)); err != nil {
		return "", err
	}
	return p.read(bufio.NewReader(conn), conn)
}

// gap is the longest time without a success that touches the time from `from` to `to`.
func (p *Probed) gap(from, to int64) time.Duration {
	longest, last := int64(0), int64(0)
	for _, at := range append(p.successes, to) {
		if at >= from && last < to {
			longest = max(longest, at-max(last, 0))
		}
		last = at
	}
	return time.Duration(longest)
}
