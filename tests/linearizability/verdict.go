package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// keyMax bounds the check of one key. What is not decided by then counts as a failure.
const keyMax = 30 * time.Second

// checksAtOnce bounds the keys that are checked at the same time.
const checksAtOnce = 2

// Verdict is that of one history.
type Verdict struct {
	// Keys without an order that explains all answers, and keys that were not decided.
	Wrong, Undecided []string
	// Keys of which a connection was shown something older than before.
	Backwards []string
	// Files that show the wrong ones.
	Files []string
	// The most requests of one key, and the most without an answer.
	Longest, MostOpen int
}

// judge checks all keys of a run. Files go to `directory`.
func judge(run *Run, directory string) (*Verdict, error) {
	verdict := &Verdict{}
	var mutex sync.Mutex
	var checks sync.WaitGroup
	places := make(chan struct{}, checksAtOnce)
	var failed error
	for _, key := range run.keys {
		// After a loss tokens may begin again.
		if run.history.age > 0 && len(run.losses.list) == 0 {
			shown := run.history.shown(key)
			if what := backwards(shown); what != "" {
				verdict.Backwards = append(verdict.Backwards, key+" ("+what+")")
				path, err := write(directory, key+".shown.txt", "What clients have seen.", shown, nil)
				if err != nil {
					return nil, err
				}
				verdict.Files = append(verdict.Files, path)
			}
		}
		entries := run.history.of(key)
		entries = append(entries, run.losses.of(key)...)
		open := 0
		for _, entry := range entries {
			if entry.Return == never {
				open++
			}
		}
		verdict.Longest = max(verdict.Longest, len(entries))
		verdict.MostOpen = max(verdict.MostOpen, open)
		checks.Add(1)
		places <- struct{}{}
		go func() {
			defer func() { <-places; checks.Done() }()
			result, info := porcupine.CheckOperationsVerbose(model, operations(entries), keyMax)
			mutex.Lock()
			defer mutex.Unlock()
			switch result {
			case porcupine.Ok:
				return
			case porcupine.Unknown:
				verdict.Undecided = append(verdict.Undecided, key)
			default:
				verdict.Wrong = append(verdict.Wrong, key)
			}
			files, err := show(directory, key, entries, info)
			verdict.Files = append(verdict.Files, files...)
			if err != nil {
				failed = err
			}
		}()
	}
	checks.Wait()
	sort.Strings(verdict.Wrong)
	return verdict, failed
}

// show writes what porcupine has found, and the history as text.
func show(
	directory, key string, entries []Entry, info porcupine.LinearizationInfo,
) ([]string, error) {
	picture := filepath.Join(directory, key+".html")
	if err := porcupine.VisualizePath(model, info, picture); err != nil {
		return nil, err
	}
	explained := map[*Request]bool{}
	for _, partition := range info.PartialLinearizationsOperations() {
		longest := []porcupine.Operation{}
		for _, order := range partition {
			if len(order) > len(longest) {
				longest = order
			}
		}
		for _, operation := range longest {
			explained[operation.Input.(*Request)] = true
		}
	}
	const title = "The longest order that explains its answers does not reach the lines with *."
	path, err := write(directory, key+".txt", title, entries, func(entry *Entry) bool {
		return !explained[entry.Request]
	})
	return []string{picture, path}, err
}

// write makes a file of entries, a line for each, with a * at those that are marked.
func write(
	directory, name, title string, entries []Entry, marked func(*Entry) bool,
) (string, error) {
	path := filepath.Join(directory, name)
	file, err := os.Create(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	_, err = fmt.Fprintln(file, title)
	for at := range entries {
		entry := &entries[at]
		mark, end := " ", "     never"
		if marked != nil && marked(entry) {
			mark = "*"
		}
		if entry.Return != never {
			end = fmt.Sprintf("%10.6f", float64(entry.Return)/1e9)
		}
		_, err = fmt.Fprintf(file, "%s %10.6f %s client %2d.%d through cell %d: %s\n", mark,
			float64(entry.Call)/1e9, end, entry.Client, entry.Conn, entry.Through+1,
			describe(entry.Request, entry.Reply))
	}
	return path, err
}
