package core

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

const maxSmapsLine = 1 << 16 // bytes; a path is at most 4 KiB, or four times that escaped

// A detail is what smaps says about a mapping beyond its line in maps.
type detail struct {
	span
	resident uint64   // bytes of it in memory or swapped out
	shared   uint64   // bytes of it that other processes shared
	flags    []string // VmFlags: two letters each
}

// details is a process's smaps, by address. The kernel needs about as long to
// make the list as to copy a tenth of the memory, so it is read before the
// process is stopped.
type details []detail

// at returns what is known about the mapping that contains address, or the zero
// detail if that mapping is newer than the list.
func (d details) at(address uint64) detail {
	i, found := slices.BinarySearchFunc(d, address, func(d detail, address uint64) int {
		switch {
		case d.end <= address:
			return -1
		case d.start > address:
			return 1
		}
		return 0
	})
	if !found {
		return detail{}
	}
	return d[i]
}

// has reports whether any of the flags is set.
func (d detail) has(flags ...string) bool {
	return slices.ContainsFunc(flags, func(flag string) bool { return slices.Contains(d.flags, flag) })
}

// unshared reports whether no other process can share the mapping's pages. This
// is the case if they are not copied to children (dc), like V8's heap, and the
// kernel does not merge them with equal pages (mg).
func (d detail) unshared() bool { return d.has("dc") && !d.has("mg", "sh", "ms") && d.shared == 0 }

// readDetails reads an smaps file.
func readDetails(smaps io.Reader) (details, error) {
	var all details
	lines := bufio.NewScanner(smaps)
	lines.Buffer(nil, maxSmapsLine)
	for lines.Scan() {
		line := lines.Text()
		key, value, _ := strings.Cut(line, " ")
		name, isField := strings.CutSuffix(key, ":")
		if !isField {
			s, err := parseSpan(key)
			if err != nil {
				return nil, fmt.Errorf("read mapping %q: %w", line, err)
			}
			all = append(all, detail{span: s})
			continue
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("read mappings: %q comes before the first", line)
		}
		last := &all[len(all)-1]
		switch name {
		case "Rss", "Swap", "Shared_Hugetlb", "Private_Hugetlb", "Shared_Clean", "Shared_Dirty":
			kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 54)
			if err != nil {
				return nil, fmt.Errorf("read mapping %x-%x: %s: %w", last.start, last.end, name, err)
			}
			if name == "Shared_Clean" || name == "Shared_Dirty" {
				last.shared += kib << 10
			} else {
				last.resident += kib << 10
			}
		case "VmFlags":
			last.flags = strings.Fields(value)
		}
	}
	return all, lines.Err()
}

// parseSpan reads "start-end", both hexadecimal.
func parseSpan(text string) (span, error) {
	first, last, _ := strings.Cut(text, "-")
	start, err := strconv.ParseUint(first, 16, 64)
	end, endErr := strconv.ParseUint(last, 16, 64)
	if err := errors.Join(err, endErr); err != nil {
		return span{}, err
	}
	if end < start {
		return span{}, fmt.Errorf("it ends at %#x, before it starts", end)
	}
	return span{start, end}, nil
}
