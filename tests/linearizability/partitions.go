package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	partitionCells = 5
	// Requests in a second beside the probes.
	partitionRate = 300
	// How long each cut lasts, and how long is waited before it and after it.
	partitionFor   = 5 * time.Second
	partitionAside = time.Second
)

// Partition is one way to divide five cells. The founder, which has the place 1, leads the
// agreement at the start. Places stand for the cells that lead the range of that number in the
// ring: see placesOf.
type Partition struct {
	name string
	// Who does not hear whom: from, to.
	cuts [][2]int
	// Whether only the port for requests and copies is cut.
	linksOnly bool
	// The cells at the smaller side, or those that the cut is about.
	few []int
	// A cell that is killed while the cut lasts, so that the map changes; 0 for none.
	killed int
}

// both are the cuts between each of `some` and each of `others`.
func both(some, others []int) [][2]int {
	return append(oneway(some, others), oneway(others, some)...)
}

func oneway(from, to []int) [][2]int {
	var cuts [][2]int
	for _, one := range from {
		for _, other := range to {
			cuts = append(cuts, [2]int{one, other})
		}
	}
	return cuts
}

// partitions are all that are tried. Cell N leads range N; its copy is at the next cell.
func partitions() []Partition {
	return []Partition{
		{name: "minority 4 5", cuts: both([]int{4, 5}, []int{1, 2, 3}), few: []int{4, 5}},
		{name: "minority 1 2, with the leader", cuts: both([]int{1, 2}, []int{3, 4, 5}),
			few: []int{1, 2}},
		{name: "cell 3 apart", cuts: both([]int{3}, []int{1, 2, 4, 5}), few: []int{3}},
		{name: "leader 1 apart", cuts: both([]int{1}, []int{2, 3, 4, 5}), few: []int{1}},
		{name: "cell 3 hears nobody", cuts: oneway([]int{1, 2, 4, 5}, []int{3}), few: []int{3}},
		{name: "nobody hears cell 3", cuts: oneway([]int{3}, []int{1, 2, 4, 5}), few: []int{3}},
		{name: "leader 1 hears nobody", cuts: oneway([]int{2, 3, 4, 5}, []int{1}), few: []int{1}},
		{name: "nobody hears leader 1", cuts: oneway([]int{1}, []int{2, 3, 4, 5}), few: []int{1}},
		{name: "primary 3 from its copy 4", cuts: both([]int{3}, []int{4}), few: []int{3, 4}},
		{name: "copy 4 does not hear primary 3", cuts: oneway([]int{3}, []int{4}),
			few: []int{3, 4}},
		{name: "primary 3 does not hear copy 4", cuts: oneway([]int{4}, []int{3}),
			few: []int{3, 4}},
		{name: "primary 3 from leader 1", cuts: both([]int{3}, []int{1}), few: []int{3}},
		{name: "primary 3 from leader 1, and 5 dies", cuts: both([]int{3}, []int{1}),
			few: []int{3}, killed: 5},
		{name: "primary 3 does not hear leader 1, 5 dies", cuts: oneway([]int{1}, []int{3}),
			few: []int{3}, killed: 5},
		{name: "links to copy 4", cuts: oneway([]int{1, 2, 3, 5}, []int{4}), linksOnly: true,
			few: []int{4}},
	}
}

// Divided is what came of one partition.
type Divided struct {
	Name    string         `json:"name"`
	Ranges  []DividedRange `json:"ranges"`
	Stale   []string       `json:"stale"`
	Lost    []string       `json:"lost"`
	Wrong   []string       `json:"wrong"`
	Losses  int            `json:"losses"`
	Errors  map[string]int `json:"errors"`
	Healing float64        `json:"seconds_until_healthy"`
	Failure string         `json:"failure"`
}

// DividedRange is what clients have seen of one range: the longest time without a success, in
// seconds, through the cells that the cut is about (few), through that of the others which was
// served best, and through the one that was served worst.
type DividedRange struct {
	Range  string `json:"range"`
	Reads  Gaps   `json:"reads"`
	Writes Gaps   `json:"writes"`
}

// Gaps are the longest times without a success, in seconds.
type Gaps struct {
	Few   float64 `json:"few"`
	Best  float64 `json:"best"`
	Worst float64 `json:"worst"`
}

func (g *Gaps) add(gap time.Duration, isOfFew bool) {
	seconds := gap.Seconds()
	switch {
	case isOfFew:
		g.Few = max(g.Few, seconds)
	case g.Worst == 0:
		g.Best, g.Worst = seconds, seconds
	default:
		g.Best, g.Worst = min(g.Best, seconds), max(g.Worst, seconds)
	}
}

// divideAll runs all partitions; true if none has shown a wrong answer.
func divideAll(options *Options, network Network, folder string) (bool, error) {
	well := true
	for number, partition := range partitions() {
		directory := filepath.Join(folder, fmt.Sprintf("partition-%d", number+1))
		if err := os.Mkdir(directory, 0o700); err != nil {
			return false, fmt.Errorf("%w: give an empty folder as --keep", err)
		}
		divided, err := divide(options, network, directory, &partition, int64(number))
		if err != nil {
			return false, fmt.Errorf("%s: %w; logs: %s", partition.name, err, directory)
		}
		divided.print(options.asJSON, number == 0)
		well = well && len(divided.Stale)+len(divided.Lost)+len(divided.Wrong) == 0 &&
			divided.Failure == ""
	}
	if well && options.keep == "" {
		// What cannot be removed stays, as other temporary files do.
		_ = os.RemoveAll(folder)
	}
	return well, nil
}

// placesOf gives, by the number of a cell in the ring, its place.
func placesOf(ring *Ring, report Report) map[int]int {
	places := map[int]int{}
	for number := 1; number <= len(ring.cells); number++ {
		for _, cell := range ring.cells {
			if report[fmt.Sprintf("cell:%d:clients", number)] == cell.clients {
				places[number] = cell.place
			}
		}
	}
	return places
}

func divide(
	options *Options, network Network, directory string, partition *Partition, number int64,
) (*Divided, error) {
	ring, err := newRing(options, network, directory)
	if err != nil {
		return nil, err
	}
	defer ring.end()
	report, err := askReport(ring.cells[0].clients)
	if err != nil {
		return nil, err
	}
	run := newRun(options, ring, options.seed+number)
	places := placesOf(ring, report)
	probes := startProbes(run, report)
	divided := &Divided{Name: partition.name}
	var from, to int64
	played := run.play(func() error {
		time.Sleep(partitionAside)
		from = run.now()
		for _, cut := range partition.cuts {
			err := network.cut(places[cut[0]], places[cut[1]], partition.linksOnly)
			if err != nil {
				return err
			}
		}
		if options.verbose {
			fmt.Fprintf(os.Stderr, "%8.3f s  %s\n", float64(run.now())/1e9, partition.name)
		}
		if err := run.kill(places[partition.killed]); err != nil {
			return err
		}
		time.Sleep(partitionFor)
		if err := network.join(); err != nil {
			return err
		}
		joined := time.Now()
		err := ring.healthy(healMax, 0)
		divided.Healing = time.Since(joined).Seconds()
		if err == nil {
			time.Sleep(partitionAside)
		}
		to = run.now()
		return err
	})
	probes.wait()
	if err := network.join(); err != nil {
		return nil, err
	}
	if played != nil {
		divided.Failure = played.Error()
	}
	probes.conclude(divided, ring, partition, places, from, to)
	verdict, err := judge(run, directory)
	if err != nil {
		return nil, err
	}
	divided.Wrong = append(verdict.Wrong, verdict.Undecided...)
	divided.Losses = len(run.losses.list)
	return divided, nil
}

// kill ends a cell and starts it again; 0 for none.
func (r *Run) kill(place int) error {
	if place == 0 {
		return nil
	}
	time.Sleep(partitionAside)
	fault := &Fault{Kind: killed, Cells: []int{place}}
	if err := r.begin(fault); err != nil {
		return err
	}
	return r.ring.finish(fault)
}

// Probes are those of one partition: two for each range, through each cell.
type Probes struct {
	list    []*Probe
	running sync.WaitGroup
}

func startProbes(run *Run, report Report) *Probes {
	probes := &Probes{}
	for _, cell := range run.ring.cells {
		for _, name := range report.ranges() {
			probe := newProbe(run, cell, report, name)
			probes.list = append(probes.list, probe)
			probes.running.Add(2)
			go func() {
				defer probes.running.Done()
				probe.run(run, &probe.writes, probe.write)
			}()
			go func() {
				defer probes.running.Done()
				probe.run(run, &probe.reads, probe.read)
			}()
		}
	}
	return probes
}

func (p *Probes) wait() { p.running.Wait() }

// conclude computes what the probes have seen, and reads their keys once more.
func (p *Probes) conclude(
	divided *Divided, ring *Ring, partition *Partition, places map[int]int, from, to int64,
) {
	few := map[int]bool{}
	for _, number := range partition.few {
		few[places[number]] = true
	}
	rows := map[string]*DividedRange{}
	divided.Errors = map[string]int{}
	for _, probe := range p.list {
		row := rows[probe.rangeName]
		if row == nil {
			row = &DividedRange{Range: probe.rangeName}
			rows[probe.rangeName] = row
		}
		row.Reads.add(probe.reads.gap(from, to), few[probe.cell.place])
		row.Writes.add(probe.writes.gap(from, to), few[probe.cell.place])
		for _, probed := range []Probed{probe.reads, probe.writes} {
			divided.Stale = append(divided.Stale, probed.stale...)
			for text, count := range probed.errors {
				divided.Errors[text] += count
			}
		}
		if lost := probe.last(ring); lost != "" {
			divided.Lost = append(divided.Lost, lost)
		}
	}
	for _, row := range rows {
		divided.Ranges = append(divided.Ranges, *row)
	}
	slices.SortFunc(divided.Ranges, func(a, b DividedRange) int {
		return strings.Compare(a.Range, b.Range)
	})
}

// last reads the key at the end, through another cell, and says what is wrong with it.
func (p *Probe) last(ring *Ring) string {
	other := ring.cells[p.cell.place%len(ring.cells)]
	before := len(p.reads.stale)
	for range lastAttempts {
		line, err := p.readOnce(other)
		if err == nil && line == "" {
			if stale := p.reads.stale[before:]; len(stale) > 0 {
				return "at the end: " + strings.Join(stale, ", ")
			}
			return ""
		}
	}
	return fmt.Sprintf("at the end: %s cannot be read through cell %d", p.key, other.place)
}

const lastAttempts = 3

// print prints what came of a partition.
func (d *Divided) print(asJSON, isFirst bool) {
	if asJSON {
		// It has no value that cannot be written.
		_ = json.NewEncoder(os.Stdout).Encode(d)
		return
	}
	if isFirst {
		fmt.Println("Longest time without a success, in seconds: through the cells that the cut " +
			"is about (few), through\nthat of the others which was served best, and through the one " +
			"that was served worst.")
		fmt.Printf("%-42s%-7s%9s%8s%8s%12s%8s%8s\n", "partition", "range", "read: few", "best",
			"worst", "write: few", "best", "worst")
	}
	name := d.Name
	for _, row := range d.Ranges {
		fmt.Printf("%-42s%-7s%9.2f%8.2f%8.2f%12.2f%8.2f%8.2f\n", name, row.Range, row.Reads.Few,
			row.Reads.Best, row.Reads.Worst, row.Writes.Few, row.Writes.Best, row.Writes.Worst)
		name = ""
	}
	fmt.Printf("    healthy %.1f s after the cut; losses %d; stale %d, lost %d, keys that are not "+
		"linearizable %d\n", d.Healing, d.Losses, len(d.Stale), len(d.Lost), len(d.Wrong))
	for _, list := range [][]string{d.Stale, d.Lost, d.Wrong} {
		for _, text := range list[:min(len(list), shownMax)] {
			fmt.Println("    WRONG: " + text)
		}
	}
	if d.Failure != "" {
		fmt.Println("    FAILED: " + d.Failure)
	}
	var texts []string
	for text, count := range d.Errors {
		texts = append(texts, strconv.Itoa(count)+" "+text)
	}
	slices.Sort(texts)
	for _, text := range texts {
		fmt.Println("    " + text)
	}
}

// shownMax bounds the wrong answers that are printed of each kind.
const shownMax = 5
