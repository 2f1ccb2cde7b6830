package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"ustack/testdata/nodetest"
)

// An event is what "go test -json" prints (go doc test2json).
type event struct {
	Action, Package, Test, Output string
	Key, Value                    string
}

// A run is what tests have shown.
type run struct {
	results results
	failed  bool
	claims  map[string][]claim // by package and test, until it ends
}

// A claim is a cell, and the answer if the test passes.
type claim struct {
	cell   cell
	answer string
}

// watch reads events until the tests have ended, and prints their output.
func watch(in io.Reader, out io.Writer) (*run, error) {
	r := &run{results: results{}, claims: map[string][]claim{}}
	const longest = 1 << 22
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longest)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(out, lines.Text()) // go itself reports what it cannot build
			r.failed = true
			continue
		}
		if _, err := io.WriteString(out, e.Output); err != nil {
			return nil, err
		}
		if err := r.event(e); err != nil {
			return nil, err
		}
	}
	return r, lines.Err()
}

func (r *run) event(e event) error {
	test := e.Package + " " + e.Test
	switch e.Action {
	case "attr":
		return r.attribute(test, e.Key, e.Value)
	case "pass", "fail":
		r.failed = r.failed || e.Action == "fail"
		for _, c := range r.claims[test] {
			if e.Action == "fail" {
				c.answer = no
			}
			r.results.add(c.cell, c.answer)
		}
		delete(r.claims, test)
	case "build-fail":
		r.failed = true
	}
	return nil
}

func (r *run) attribute(test, key, value string) error {
	answer := map[string]string{nodetest.WorksKey: yes, nodetest.RefusesKey: refused}[key]
	if answer == "" && key != nodetest.AboutKey {
		return nil
	}
	words := strings.SplitN(value, "/", 3)
	if len(words) != 3 {
		return fmt.Errorf("attribute %s of %s: %q is not TABLE/ROW/COLUMN", key, test, value)
	}
	if key == nodetest.AboutKey {
		r.results[cell{words[0], words[1], about}] = words[2]
		return nil
	}
	r.claims[test] = append(r.claims[test], claim{cell{words[0], words[1], words[2]}, answer})
	return nil
}
