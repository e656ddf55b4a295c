// Command linearizability runs a ring of real processes under faults, with clients that send
// requests of every kind about few keys, and checks the history of each key by porcupine: whether
// there is one order of its requests in which each was executed at one moment between its asking
// and its answer, and in which each answer is right.
//
// A request without an answer (a closed connection, no reply in time, `SERVER_ERROR in doubt`) may
// be executed at any later time, or never. Other errors of a ring say that it was not executed.
//
// Without --at-will each fault waits until all copies are in sync, and a loss that the ring reports
// is a failure. With it a range that is reported as lost may lose its items at that time.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// linearizable is the verdict on a history in which nothing is wrong.
const linearizable = "linearizable"

// Options are the flags.
type Options struct {
	binary, network, keep                    string
	cells, copies, clients, keys, port       int
	histories, ops, rate, faults, age        int
	seed                                     int64
	atWill, asJSON, verbose, inside, divides bool
	first, moves                             bool
}

func parse() *Options {
	o := &Options{}
	flag.StringVar(&o.binary, "volvox", "target/release/volvox", "the program under test")
	flag.StringVar(&o.network, "network", "auto",
		"namespaces (faults of the network too), loopback, or auto: namespaces where allowed")
	flag.StringVar(&o.keep, "keep", "",
		"folder for the logs of cells, and what shows a violation (default: a temporary one)")
	flag.IntVar(&o.cells, "cells", 3, "cells of the ring")
	flag.IntVar(&o.copies, "copies", 2, "copies of everything")
	flag.IntVar(&o.clients, "clients", 16, "clients, each with a connection")
	flag.IntVar(&o.keys, "keys", 24, "keys; each third holds a number")
	flag.IntVar(&o.port, "port", 0, "first port on loopback (default: free ones)")
	flag.IntVar(&o.histories, "histories", 1, "histories, each of a new ring")
	flag.IntVar(&o.ops, "ops", 10_000, "answered requests of each history, at least")
	flag.IntVar(&o.rate, "rate", 1000, "requests in a second, of all clients, at most")
	flag.IntVar(&o.faults, "faults", 4, "faults in each history")
	flag.IntVar(&o.age, "copy-reads", 0,
		"copies answer reads, which may be that many milliseconds old: 1 to 250; 0: they do not")
	flag.Int64Var(&o.seed, "seed", 0, "what faults and requests are drawn from (default: the time)")
	flag.BoolVar(&o.atWill, "at-will", false, "faults do not wait for copies in sync")
	flag.BoolVar(&o.divides, "partitions", false, "run the list of partitions of five cells instead")
	flag.BoolVar(&o.moves, "moves", false,
		"ranges are handed over, and cells drained, before faults and while they last")
	flag.BoolVar(&o.asJSON, "json", false, "a line of JSON for each history")
	flag.BoolVar(&o.first, "first", false, "end after the first history that is not linearizable")
	flag.BoolVar(&o.verbose, "verbose", false, "print each fault when it begins")
	flag.BoolVar(&o.inside, strings.TrimLeft(insideFlag, "-"), false, "")
	flag.Parse()
	switch {
	case flag.NArg() > 0:
		usage("unexpected argument %q", flag.Arg(0))
	case o.divides && o.network == "loopback":
		usage("--partitions needs network namespaces, not --network loopback")
	case o.clients < 1 || o.clients >= clientsMax:
		usage("--clients %d: 1 to %d", o.clients, clientsMax-1)
	case o.cells < 1 || o.cells > cellsMax:
		usage("--cells %d: 1 to %d", o.cells, cellsMax)
	case o.age < 0 || o.age > ageMax:
		usage("--copy-reads %d: 0 to %d", o.age, ageMax)
	case o.keys < 1 || o.rate < 1 || o.histories < 1:
		usage("--keys, --rate and --histories: 1 at least")
	}
	if o.divides {
		o.cells, o.ops = partitionCells, 0
		o.rate = min(o.rate, partitionRate)
	}
	if o.seed == 0 {
		o.seed = time.Now().UnixNano()
	}
	return o
}

func usage(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "linearizability: "+format+"\n", args...)
	os.Exit(2)
}

func main() {
	options := parse()
	if !options.inside && options.network != "loopback" {
		status, err := inside()
		if err == nil && status != refusedStatus {
			os.Exit(status)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "linearizability: %v\n", err)
		}
		if options.network == "namespaces" || options.divides {
			usage("network namespaces are not allowed here; run it as root")
		}
		fmt.Fprintln(os.Stderr, "no network namespaces are allowed here: no faults of the network")
	}
	well, err := all(options)
	if err != nil {
		fmt.Fprintf(os.Stderr, "linearizability: %v\n", err)
	}
	if err != nil || !well {
		os.Exit(1)
	}
}

// all runs every history; true if none shows a fault of the ring.
func all(options *Options) (bool, error) {
	var network Network
	var err error
	if options.inside {
		network, err = newNamespaces(options.cells)
	} else {
		network, err = newLoopback(options.port, options.cells)
	}
	if err != nil && options.inside {
		fmt.Fprintf(os.Stderr, "linearizability: %v\n", err)
		os.Exit(refusedStatus)
	}
	if err != nil {
		return false, err
	}
	folder := options.keep
	if folder == "" {
		folder, err = os.MkdirTemp("", "volvox-linearizability-")
	} else {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return false, err
	}
	if options.divides {
		return divideAll(options, network, folder)
	}
	table := newTable(options.asJSON)
	well := true
	for number := 1; number <= options.histories; number++ {
		directory := filepath.Join(folder, fmt.Sprint(number))
		// A folder that is there already may hold cells of another ring.
		if err := os.Mkdir(directory, 0o700); err != nil {
			return false, fmt.Errorf("%w: give an empty folder as --keep", err)
		}
		row, err := one(options, network, directory, options.seed+int64(number-1))
		if err != nil {
			return false, fmt.Errorf("history %d, --seed %d: %w; logs: %s", number,
				options.seed+int64(number-1), err, directory)
		}
		row.History = number
		table.add(row)
		if well = well && row.Verdict == linearizable; !well && options.first {
			break
		}
	}
	if well && options.keep == "" {
		// What cannot be removed stays, as other temporary files do.
		_ = os.RemoveAll(folder)
	}
	return well, nil
}

// one runs one history and judges it.
func one(options *Options, network Network, directory string, seed int64) (*Row, error) {
	start := time.Now()
	ring, err := newRing(options, network, directory)
	if err != nil {
		return nil, err
	}
	run := newRun(options, ring, seed)
	played := run.play(run.makeFaults)
	ring.end()
	if err := network.join(); err != nil {
		return nil, err
	}
	checking := time.Now()
	verdict, err := judge(run, directory)
	if err != nil {
		return nil, err
	}
	for _, file := range verdict.Files {
		fmt.Fprintf(os.Stderr, "see %s\n", file)
	}
	row := &Row{
		Seed: seed, Answered: run.history.Answered, Open: run.history.Open,
		Refused: run.history.Refused, Faults: map[string]int{}, Losses: len(run.losses.list),
		Longest: verdict.Longest, MostOpen: verdict.MostOpen, Wrong: verdict.Wrong,
		Undecided: verdict.Undecided, Errors: run.history.Errors,
		Seconds: time.Since(start).Seconds(), Checked: time.Since(checking).Seconds(),
	}
	for _, fault := range run.faults {
		row.Faults[fault.Kind]++
	}
	if options.moves {
		row.Faults["orders"] = run.moves
	}
	if options.age > 0 {
		row.Faults["reads by copies"] = run.copyReads
	}
	switch {
	case len(verdict.Backwards) > 0:
		row.Verdict = "WENT BACK: " + strings.Join(verdict.Backwards, ", ")
	case options.age > 0 && played == nil && run.copyReads == 0:
		row.Verdict = "FAILED: no copy has answered a read"
	case len(verdict.Wrong) > 0:
		row.Verdict = "VIOLATED: " + strings.Join(verdict.Wrong, ", ")
	case played != nil:
		row.Verdict = "FAILED: " + played.Error()
	case len(verdict.Undecided) > 0:
		row.Verdict = "UNDECIDED: " + strings.Join(verdict.Undecided, ", ")
	case row.Losses > 0 && !options.atWill:
		row.Verdict = fmt.Sprintf("LOST: %d ranges, though all copies were in sync before each fault",
			row.Losses)
	default:
		row.Verdict = linearizable
	}
	return row, nil
}

// Row is what is printed of a history.
type Row struct {
	History   int            `json:"history"`
	Seed      int64          `json:"seed"`
	Answered  int            `json:"answered"`
	Open      int            `json:"open"`
	Refused   int            `json:"refused"`
	Faults    map[string]int `json:"faults"`
	Losses    int            `json:"losses"`
	Longest   int            `json:"requests_of_a_key_max"`
	MostOpen  int            `json:"open_of_a_key_max"`
	Errors    map[string]int `json:"errors"`
	Wrong     []string       `json:"wrong"`
	Undecided []string       `json:"undecided"`
	Seconds   float64        `json:"seconds"`
	Checked   float64        `json:"seconds_of_check"`
	Verdict   string         `json:"verdict"`
}

// Table prints rows as they come.
type Table struct{ asJSON bool }

const (
	tableHead = "%-8s%-21s%9s%6s%9s%8s%9s%10s  %-52s  %s\n"
	tableRow  = "%-8d%-21d%9d%6d%9d%8d%9.1f%10.1f  %-52s  %s\n"
)

func newTable(asJSON bool) *Table {
	if !asJSON {
		fmt.Printf(tableHead, "history", "seed", "answered", "open", "refused", "losses", "seconds",
			"of check", "faults", "verdict")
	}
	return &Table{asJSON}
}

func (t *Table) add(row *Row) {
	if t.asJSON {
		// It has no value that cannot be written.
		_ = json.NewEncoder(os.Stdout).Encode(row)
		return
	}
	var faults []string
	for kind, count := range row.Faults {
		faults = append(faults, fmt.Sprintf("%d %s", count, kind))
	}
	sort.Strings(faults)
	fmt.Printf(tableRow, row.History, row.Seed, row.Answered, row.Open, row.Refused, row.Losses,
		row.Seconds, row.Checked, strings.Join(faults, ", "), row.Verdict)
}
