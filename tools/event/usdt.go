package event

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/ebpf"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize/elfsym"
	"ustack/tools/trace"
)

// A USDT is a static probe of a file of a process, or several.
type USDT struct {
	Object         string // path of the file, or its last element; any file if empty
	Provider, Name string // patterns of path.Match, such as "bunyan" and "log-*"
}

func (u USDT) String() string {
	return strings.TrimPrefix(u.Object+":"+u.Provider+":"+u.Name, ":")
}

// parseUSDT reads "OBJECT:PROVIDER:NAME".
func parseUSDT(text string) (*USDT, error) {
	u, ok := ParseUSDT(text)
	if !ok || strings.Count(text, ":") < 2 {
		return nil, errors.New("not a static probe (write usdt:OBJECT:PROVIDER:NAME)")
	}
	return &u, nil
}

// ParseUSDT reads "[OBJECT:]PROVIDER:NAME".
func ParseUSDT(text string) (u USDT, ok bool) {
	parts := strings.Split(text, ":")
	if len(parts) == 2 {
		parts = slices.Insert(parts, 0, "")
	}
	const wanted = 3
	if len(parts) != wanted || parts[1] == "" || parts[2] == "" {
		return USDT{}, false
	}
	_, err := path.Match(parts[1], "")
	_, nameErr := path.Match(parts[2], "")
	return USDT{parts[0], parts[1], parts[2]}, err == nil && nameErr == nil
}

// Matches reports whether a probe of the file at that path is one of u's.
func (u USDT) Matches(file string, p elfsym.USDT) bool {
	return (u.Object == "" || u.Object == file || u.Object == path.Base(file)) && u.matches(p)
}

// matches reports whether a probe is one of u's.
func (u USDT) matches(p elfsym.USDT) bool {
	provider, _ := path.Match(u.Provider, p.Provider) // it was parsed
	name, _ := path.Match(u.Name, p.Name)
	return provider && name
}

// probes returns a file's static probes of that name.
func (u USDT) probes(m *trace.Module) ([]elfsym.USDT, error) {
	all, err := elfsym.USDTs(m)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(p elfsym.USDT) bool { return !u.matches(p) }), nil
}

// Find returns a function for Place.Find, for one process. cookie returns the attach cookie of a
// probe.
func (u USDT) Find(cookie func(elfsym.USDT) uint64) func(*trace.Table, int) ([]Site, error) {
	return u.FindWanted(func(elfsym.USDT) bool { return true }, cookie)
}

// FindWanted is Find without the probes that are not wanted. The function is for one process.
func (u USDT) FindWanted(wanted func(elfsym.USDT) bool, cookie func(elfsym.USDT) uint64) func(*trace.Table, int) ([]Site, error) {
	read := make(map[string][]elfsym.USDT) // by path: notes do not change
	return func(t *trace.Table, pid int) (sites []Site, err error) {
		for _, m := range t.Modules(pid, u.Object) {
			path, err := m.Path()
			if err != nil {
				return nil, fmt.Errorf("probe %v: %w", u, err)
			}
			probes, known := read[path]
			if !known {
				if probes, err = u.probes(m); err != nil {
					return nil, fmt.Errorf("probe %v: %w", u, err)
				}
				read[path] = probes
			}
			site := Site{Module: m}
			for _, p := range probes {
				if !wanted(p) {
					continue
				}
				site.Points = append(site.Points, loader.Point{Offset: p.Offset, Cookie: cookie(p), Semaphore: p.Semaphore})
			}
			if len(site.Points) > 0 {
				sites = append(sites, site)
			}
		}
		return sites, nil
	}
}

// Absent is Function.Absent for a static probe.
func (u USDT) Absent(t *trace.Table, pid int) error {
	modules := t.Modules(pid, u.Object)
	if u.Object == "" || len(modules) == 0 {
		return nil
	}
	probes, err := u.probes(modules[0])
	if err != nil || len(probes) > 0 {
		return err
	}
	return fmt.Errorf("%s of process %d has no static probe %s:%s%s", modules[0].Base(), pid, u.Provider, u.Name, u.near(t, pid))
}

// near returns the static probes of the files of process pid whose names resemble u's.
func (u USDT) near(t *trace.Table, pid int) string {
	var known []string
	for _, m := range t.Modules(pid, u.Object) {
		all, err := elfsym.USDTs(m)
		if err != nil {
			continue // the file's own error was reported
		}
		for _, p := range all {
			known = append(known, p.Provider+":"+p.Name)
		}
	}
	slices.Sort(known)
	return near(u.Provider+":"+u.Name, slices.Compact(known))
}

// usdtShift is where the number of a description begins in a cookie (bpf/usdt.h: USDT_SHIFT).
const usdtShift = 32

// Descriptions number static probes for the kernel half, which knows where each has its arguments.
// Its methods may be called concurrently.
type Descriptions struct {
	mutex   sync.Mutex
	numbers map[described]uint64
	all     []Description // by number
}

// described are what probes with the same number have in common.
type described struct{ provider, name, arguments string }

// A Description is what is known of a static probe.
type Description struct {
	Provider, Name string
	bpf.TraceUsdt  // where it has its arguments
}

func (d Description) String() string { return d.Provider + ":" + d.Name }

// Cookie returns the attach cookie of a probe; own is what the tool's program finds in its lower
// half. Once the table, which is bpf/usdt.h's usdts, is full, the cookie has a number that it does
// not have: the kernel half counts that.
func (d *Descriptions) Cookie(table *ebpf.Map, p elfsym.USDT, own uint32) uint64 {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	key := described{p.Provider, p.Name, p.Arguments}
	number, ok := d.numbers[key]
	if !ok {
		if d.numbers == nil {
			d.numbers = make(map[described]uint64)
		}
		number = uint64(len(d.numbers))
		d.numbers[key] = number
		d.all = append(d.all, Description{p.Provider, p.Name, ParseArguments(p.Arguments)})
		_ = table.Put(uint32(number), d.all[number].TraceUsdt) // fails for numbers that are too large
	}
	return uint64(own) | number<<usdtShift
}

// Of returns the probe whose number is in a cookie.
func (d *Descriptions) Of(cookie uint64) (of Description) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if number := cookie >> usdtShift; number < uint64(len(d.all)) {
		of = d.all[number]
	}
	return of
}

// Numbered is Of for the number itself.
func (d *Descriptions) Numbered(number uint32) Description { return d.Of(uint64(number) << usdtShift) }
