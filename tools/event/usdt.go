package event

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize/elfsym"
	"ustack/tools/trace"
)

// A USDT is a static probe of a file of a process.
type USDT struct {
	Object         string // path of the file, or its last element; any file if empty
	Provider, Name string
}

func (u USDT) String() string { return u.Object + ":" + u.Provider + ":" + u.Name }

// parseUSDT reads "OBJECT:PROVIDER:NAME".
func parseUSDT(text string) (*USDT, error) {
	parts := strings.Split(text, ":")
	const wanted = 3
	if len(parts) != wanted || parts[1] == "" || parts[2] == "" {
		return nil, errors.New("not a static probe (write usdt:OBJECT:PROVIDER:NAME)")
	}
	return &USDT{parts[0], parts[1], parts[2]}, nil
}

// probes returns a file's static probes of that name.
func (u USDT) probes(m *trace.Module) ([]elfsym.USDT, error) {
	all, err := elfsym.USDTs(m)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(p elfsym.USDT) bool { return p.Provider != u.Provider || p.Name != u.Name }), nil
}

// Find returns a function for Place.Find. number returns the cookie of a probe whose arguments are
// described by the text.
func (u USDT) Find(number func(arguments string) uint64) func(*trace.Table, int) ([]Site, error) {
	return func(t *trace.Table, pid int) (sites []Site, err error) {
		for _, m := range t.Modules(pid, u.Object) {
			probes, err := u.probes(m)
			if err != nil {
				return nil, fmt.Errorf("probe %v: %w", u, err)
			}
			site := Site{Module: m}
			for _, p := range probes {
				site.Points = append(site.Points, loader.Point{Offset: p.Offset, Cookie: number(p.Arguments), Semaphore: p.Semaphore})
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

// Operands of x86-64 in a probe's description, as the assembler writes them: -4@$5, 8@%rax,
// -4@-20(%rbp), 8@(%rax,%rbx,8), 8@symbol+4(%rip). The last form is not read.
var (
	usdtSize     = regexp.MustCompile(`^(-?)([1248])(?:f)?@(.*)$`)
	usdtConstant = regexp.MustCompile(`^\$(-?\d+)$`)
	usdtRegister = regexp.MustCompile(`^%(\w+)$`)
	usdtMemory   = regexp.MustCompile(`^(-?\d*)\(%(\w+)(?:,%(\w+)(?:,([1248]))?)?\)$`)
)

// ParseArguments reads where a static probe has its arguments. An operand that is not understood
// has the kind PLACE_NONE.
func ParseArguments(text string) (u bpf.TraceUsdt) {
	const usual = 8
	for i, operand := range strings.Fields(text) {
		if i == len(u.Arguments) {
			break
		}
		place := bpf.TracePlace{Size: usual}
		if m := usdtSize.FindStringSubmatch(operand); m != nil {
			size, _ := strconv.Atoi(m[2]) // one digit
			place.Size, operand = uint8(size), m[3]
			if m[1] == "-" {
				place.IsSigned = 1
			}
		}
		u.Arguments[i] = parsePlace(place, operand)
	}
	return u
}

func parsePlace(place bpf.TracePlace, operand string) bpf.TracePlace {
	if m := usdtConstant.FindStringSubmatch(operand); m != nil {
		if v, err := strconv.ParseInt(m[1], 10, 64); err == nil {
			place.Kind, place.Offset = uint8(bpf.TracePlaceKindPLACE_CONSTANT), v
		}
	} else if m := usdtRegister.FindStringSubmatch(operand); m != nil {
		if at, high, ok := registerPlace(m[1]); ok {
			place.Kind, place.Base = uint8(bpf.TracePlaceKindPLACE_REGISTER), at+high
		}
	} else if m := usdtMemory.FindStringSubmatch(operand); m != nil {
		base, _, ok := registerPlace(m[2])
		offset, err := strconv.ParseInt("0"+strings.TrimPrefix(m[1], "-"), 10, 64)
		if strings.HasPrefix(m[1], "-") {
			offset = -offset
		}
		if m[3] != "" {
			index, _, known := registerPlace(m[3])
			scale, _ := strconv.Atoi("0" + m[4]) // 0 if it is missing
			place.HasIndex, place.Index, place.Scale = 1, index, uint32(max(scale, 1))
			ok = ok && known
		}
		if ok && err == nil {
			place.Kind, place.Base, place.Offset = uint8(bpf.TracePlaceKindPLACE_MEMORY), base, offset
		}
	}
	return place
}

// registers of x86-64 in the order of the kernel's struct pt_regs (bpf/regs.h).
var registers = []string{"r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx", "dx", "si", "di", "orig_ax", "ip", "cs", "flags", "sp"}

// registerPlace returns where struct pt_regs has the register that a part of it, such as eax, al
// or r8d, belongs to; high is 1 for the second byte, such as ah.
func registerPlace(name string) (at, high uint16, ok bool) {
	const word = 8
	short := name
	switch {
	case len(name) > 2 && name[0] == 'r' && name[1] >= '0' && name[1] <= '9':
		short = strings.TrimRight(name, "dwb")
	case len(name) == 3 && (name[0] == 'r' || name[0] == 'e'):
		short = name[1:]
	case len(name) == 3 && name[2] == 'l': // sil, bpl
		short = name[:2]
	case len(name) == 2 && strings.Contains("abcd", name[:1]) && (name[1] == 'l' || name[1] == 'h'):
		short = name[:1] + "x"
		if name[1] == 'h' {
			high = 1
		}
	}
	i := slices.Index(registers, short)
	return uint16(max(i, 0) * word), high, i >= 0
}
