package main

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// A probe sends a request that often, whether or not those before are answered: the resolution
	// of what probes measure.
	probeEvery = 40 * time.Millisecond
	// Requests of a probe that are under way: more than are sent until the first is given up.
	underWayMax = 100
)

// Probe asks one cell for one key, again and again: some requests write a counter, the others read
// it. Each has a connection that no other uses meanwhile.
type Probe struct {
	now       func() int64
	cell      *Cell
	rangeName string
	key       string
	mutex     sync.Mutex
	sent      int
	// By counter, when its write was acknowledged.
	acked map[int]int64
	// When the last of those that are acknowledged was sent.
	lastSent int64
	reads    Probed
	writes   Probed
}

// Probed is what one of the two has seen.
type Probed struct {
	// When each success came, in nanoseconds since the start of the run.
	successes []int64
	// Errors, by their text.
	errors map[string]int
	// Reads of a value that was replaced before they were asked: another write was sent after the
	// one of the value was acknowledged, and acknowledged before the read was sent.
	stale []string
}

func newProbe(run *Run, cell *Cell, report Report, name string) *Probe {
	probe := &Probe{now: run.now, cell: cell, rangeName: name, acked: map[int]int64{}}
	probe.reads.errors, probe.writes.errors = map[string]int{}, map[string]int{}
	for number := 0; probe.key == "" || report.rangeOf(probe.key) != name; number++ {
		probe.key = fmt.Sprintf("probe-%d-%d", cell.place, number)
	}
	return probe
}

// run asks until the run stops.
func (p *Probe) run(run *Run, probed *Probed, ask func(*bufio.Reader, net.Conn) (string, error)) {
	var asking sync.WaitGroup
	defer asking.Wait()
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	places := make(chan struct{}, underWayMax)
	idle := make(chan net.Conn, underWayMax)
	for {
		select {
		case <-run.stops:
			return
		case <-ticker.C:
		}
		select {
		case places <- struct{}{}:
		default:
			continue
		}
		asking.Add(1)
		go func() {
			defer func() { <-places; asking.Done() }()
			text, err := p.once(idle, ask)
			p.mutex.Lock()
			defer p.mutex.Unlock()
			switch {
			case err != nil:
				probed.errors["no answer"]++
			case text != "":
				probed.errors[withoutNumbers(text)]++
			default:
				probed.successes = append(probed.successes, run.now())
			}
		}()
	}
}

// once asks through a connection that is idle, or a new one.
func (p *Probe) once(
	idle chan net.Conn, ask func(*bufio.Reader, net.Conn) (string, error),
) (string, error) {
	var conn net.Conn
	select {
	case conn = <-idle:
	default:
		var err error
		if conn, err = net.DialTimeout("tcp", p.cell.clients, connectMax); err != nil {
			return "", err
		}
	}
	// An error shows at the next read or write.
	_ = conn.SetDeadline(time.Now().Add(answerMax))
	text, err := ask(bufio.NewReader(conn), conn)
	if err != nil {
		conn.Close()
		return "", err
	}
	// It has as many places as there are connections.
	idle <- conn
	return text, nil
}

// write sends the next counter. Returns the error line, if there is one.
func (p *Probe) write(reader *bufio.Reader, conn net.Conn) (string, error) {
	p.mutex.Lock()
	p.sent++
	counter, call := p.sent, p.now()
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
	p.acked[counter] = p.now()
	p.lastSent = max(p.lastSent, call)
	return "", nil
}

// read reads the counter, and compares it with what was acknowledged before.
func (p *Probe) read(reader *bufio.Reader, conn net.Conn) (string, error) {
	p.mutex.Lock()
	lastSent := p.lastSent
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
	acked, isAcked := p.acked[counter]
	if (isAcked || counter == 0) && acked < lastSent {
		p.reads.stale = append(p.reads.stale, fmt.Sprintf("%s through cell %d: %d, of %.3f s, "+
			"though one of %.3f s was acknowledged",
			p.key, p.cell.place, counter, float64(acked)/1e9, float64(lastSent)/1e9))
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
	slices.Sort(p.successes)
	for _, at := range append(p.successes, to) {
		if at >= from && last < to {
			longest = max(longest, at-max(last, 0))
		}
		last = at
	}
	return time.Duration(longest)
}
