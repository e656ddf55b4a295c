package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	formMax = 20 * time.Second
	healMax = 30 * time.Second
	// How long all copies must have been in sync, with the same map, until that counts. Longer than
	// a silence that is noticed late, and the change of the map that follows.
	steadyFor = 700 * time.Millisecond
	lookEvery = 40 * time.Millisecond
	// One look counts no longer than that, so a machine that is suspended does not count as one
	// that does not heal.
	lookMax = 2 * time.Second
	secret  = "a secret of this test alone"
)

// Cell is one process.
type Cell struct {
	// From 1 on: where it is, and its directory. Not its number in the ring.
	place                   int
	clients, control, links string
	process                 *os.Process
	ended                   chan struct{}
	isStopped               bool
}

// Ring is some cells, and their files.
type Ring struct {
	binary, directory string
	network           Network
	copies, age       int
	cells             []*Cell
}

// spawn starts processes on one thread, because they are killed when the thread ends that has
// started them.
var spawn = make(chan func())

func init() {
	go func() {
		runtime.LockOSThread()
		for start := range spawn {
			start()
		}
	}()
}

func newRing(options *Options, network Network, directory string) (*Ring, error) {
	ring := &Ring{
		binary: options.binary, directory: directory, network: network, copies: options.copies,
		age: options.age,
	}
	err := os.WriteFile(filepath.Join(directory, "secret"), []byte(secret), 0o600)
	if err != nil {
		return nil, err
	}
	for place := 1; place <= options.cells; place++ {
		cell := &Cell{place: place}
		cell.clients, cell.control, cell.links = network.addresses(place)
		ring.cells = append(ring.cells, cell)
	}
	for _, cell := range ring.cells {
		if err := ring.start(cell); err != nil {
			ring.end()
			return nil, err
		}
	}
	if err := ring.healthy(formMax, 0); err != nil {
		ring.end()
		return nil, fmt.Errorf("no ring has formed: %w; the logs are %s/*.log", err, directory)
	}
	return ring, nil
}

// start starts the process of a cell, with the directory that it has.
func (r *Ring) start(cell *Cell) error {
	name := filepath.Join(r.directory, strconv.Itoa(cell.place))
	log, err := os.OpenFile(name+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	if err := os.WriteFile(name+".toml", []byte(r.settings(cell, name)), 0o600); err != nil {
		return err
	}
	line := r.network.command(cell.place, []string{r.binary, "join", "--config", name + ".toml"})
	command := exec.Command(line[0], line[1:]...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	done := make(chan error)
	spawn <- func() { done <- command.Start() }
	if err := <-done; err != nil {
		return err
	}
	cell.process, cell.ended, cell.isStopped = command.Process, make(chan struct{}), false
	go func(ended chan struct{}) {
		// How it ended is in its log.
		_ = command.Wait()
		close(ended)
	}(cell.ended)
	return nil
}

// settings are the file of a cell with this directory. The first one founds the ring.
func (r *Ring) settings(cell *Cell, directory string) string {
	of := fmt.Sprintf("seeds = [%q]\n", r.cells[0].control)
	if cell.place == 1 {
		of = fmt.Sprintf("seeds = []\ncells = %d\ncopies = %d\n", len(r.cells), r.copies)
	}
	return fmt.Sprintf(
		"[server]\ndriver = \"epoll\"\nworkers = 1\nlisten = [%q]\n"+
			"[ring]\ndirectory = %q\nlisten = [%q]\nlinks = [%q]\nsecret_file = %q\n"+
			"copy_reads_ms = %d\n%s",
		cell.clients, directory, cell.control, cell.links,
		filepath.Join(r.directory, "secret"), r.age, of,
	)
}

// kill ends the process of a cell by SIGKILL, and returns when it has ended.
func (r *Ring) kill(cell *Cell) {
	// An error means that it has ended.
	_ = cell.process.Kill()
	<-cell.ended
}

// stop stops a cell (SIGSTOP), or lets it continue.
func (r *Ring) stop(cell *Cell, stops bool) error {
	cell.isStopped = stops
	if stops {
		return cell.process.Signal(syscall.SIGSTOP)
	}
	return cell.process.Signal(syscall.SIGCONT)
}

func (r *Ring) end() {
	for _, cell := range r.cells {
		if cell.process != nil {
			r.kill(cell)
		}
	}
}

// hasEnded names a cell that has ended by itself.
func (r *Ring) hasEnded() error {
	for _, cell := range r.cells {
		select {
		case <-cell.ended:
			log := filepath.Join(r.directory, strconv.Itoa(cell.place))
			return fmt.Errorf("cell %d has ended by itself; its log is %s.log", cell.place, log)
		default:
		}
	}
	return nil
}

// reports are what all cells say, by their places. An error if one says nothing.
func (r *Ring) reports() ([]Report, error) {
	reports := make([]Report, len(r.cells))
	for at, cell := range r.cells {
		report, err := askReport(cell.clients)
		if err != nil {
			return nil, fmt.Errorf("cell %d: %w", cell.place, err)
		}
		reports[at] = report
	}
	return reports, nil
}

// sick says what is missing until all cells serve, with all copies, by the same map.
func sick(reports []Report) string {
	for at, report := range reports {
		switch place := at + 1; {
		case report.number("ranges") == 0:
			return fmt.Sprintf("cell %d: the ring has not formed", place)
		case report["map_version"] != reports[0]["map_version"]:
			return fmt.Sprintf("cell %d has another map than cell 1", place)
		case report["ranges_short_of_copies"] != "0":
			return fmt.Sprintf("cell %d: %s ranges are short of copies", place,
				report["ranges_short_of_copies"])
		case report["cell:"+report["cell"]+":start"] != report["start"]:
			return fmt.Sprintf("the map does not know of start %s of cell %d", report["start"], place)
		}
		for name, value := range report {
			if strings.HasSuffix(name, ":serves") && value != "yes" {
				return fmt.Sprintf("cell %d: %s is %s", at+1, name, value)
			}
		}
	}
	return ""
}

// healthy waits until all copies have been in sync for `steady`.
func (r *Ring) healthy(within, steady time.Duration) error {
	last, waited := time.Now(), time.Duration(0)
	since, version := time.Time{}, ""
	for {
		reports, err := r.reports()
		missing := ""
		switch {
		case err != nil:
			missing = err.Error()
		default:
			missing = sick(reports)
		}
		if missing != "" {
			since = time.Time{}
		} else if now := reports[0]["map_version"]; since.IsZero() || now != version {
			since, version = time.Now(), now
		}
		if !since.IsZero() && time.Since(since) >= steady {
			return nil
		}
		waited += min(time.Since(last), lookMax)
		last = time.Now()
		if waited > within {
			return fmt.Errorf("not after %v: %s", within, missing)
		}
		if err := r.hasEnded(); err != nil {
			return err
		}
		time.Sleep(lookEvery)
	}
}
