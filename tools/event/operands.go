package event

import (
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"ustack/bpf"
)

// A machine is how the assembler writes operands in a static probe's description, each after its
// size: 8@%rax, -4@$5.
type machine struct {
	constant, register *regexp.Regexp
	// memory has the offset, the base, the index and its scale by name.
	memory *regexp.Regexp
	place  func(register string) (at, high uint16, ok bool) // in struct pt_regs (bpf/regs.h)
	shifts bool                                             // the scale is a number of bits
}

// machines by Go's names of them. Operands of x86-64 are -4@$5, 8@%rax, -4@-20(%rbp),
// 8@(%rax,%rbx,8); 8@symbol+4(%rip) is not read. Those of arm64 are -4@5, 8@x0, 4@[sp, 12],
// 8@[x0, x1, lsl 3].
var machines = map[string]*machine{
	"amd64": {
		constant: regexp.MustCompile(`^\$(-?\d+)$`),
		register: regexp.MustCompile(`^%(\w+)$`),
		memory:   regexp.MustCompile(`^(?P<offset>-?\d*)\(%(?P<base>\w+)(?:,%(?P<index>\w+)(?:,(?P<scale>[1248]))?)?\)$`),
		place:    placeOnX86,
	},
	"arm64": {
		constant: regexp.MustCompile(`^#?(-?\d+)$`),
		register: regexp.MustCompile(`^([xw]\d+|sp)$`),
		memory:   regexp.MustCompile(`^\[(?P<base>x\d+|sp)(?:, *(?:#?(?P<offset>-?\d+)|(?P<index>x\d+)(?:, *lsl #?(?P<scale>[0-3]))?))?\]$`),
		place:    placeOnARM64, shifts: true,
	},
}

var (
	usdtSize = regexp.MustCompile(`^(-?)([1248])(?:f)?@(.*)$`)
	operands = regexp.MustCompile(`[^\s\[]*\[[^\]]*\]|\S+`) // of arm64's memory, brackets may have spaces
)

// ParseArguments reads where a static probe of this machine has its arguments. An operand that is
// not understood has the kind PLACE_NONE.
func ParseArguments(text string) bpf.TraceUsdt { return machines[runtime.GOARCH].arguments(text) }

func (m *machine) arguments(text string) (u bpf.TraceUsdt) {
	const usual = 8
	for i, operand := range operands.FindAllString(text, len(u.Arguments)) {
		place := bpf.TracePlace{Size: usual}
		if sized := usdtSize.FindStringSubmatch(operand); sized != nil {
			size, _ := strconv.Atoi(sized[2]) // one digit
			place.Size, operand = uint8(size), sized[3]
			if sized[1] == "-" {
				place.IsSigned = 1
			}
		}
		u.Arguments[i] = m.parse(place, operand)
	}
	return u
}

func (m *machine) parse(place bpf.TracePlace, operand string) bpf.TracePlace {
	if is := m.constant.FindStringSubmatch(operand); is != nil {
		if v, err := strconv.ParseInt(is[1], 10, 64); err == nil {
			place.Kind, place.Offset = uint8(bpf.TracePlaceKindPLACE_CONSTANT), v
		}
	} else if is := m.register.FindStringSubmatch(operand); is != nil {
		if at, high, ok := m.place(is[1]); ok {
			place.Kind, place.Base = uint8(bpf.TracePlaceKindPLACE_REGISTER), at+high
		}
	} else if is := m.memory.FindStringSubmatch(operand); is != nil {
		part := func(name string) string { return is[m.memory.SubexpIndex(name)] }
		base, _, ok := m.place(part("base"))
		offset, err := strconv.ParseInt("0"+strings.TrimPrefix(part("offset"), "-"), 10, 64)
		if strings.HasPrefix(part("offset"), "-") {
			offset = -offset
		}
		if part("index") != "" {
			index, _, known := m.place(part("index"))
			place.HasIndex, place.Index, place.Scale = 1, index, m.scale(part("scale"))
			ok = ok && known
		}
		if ok && err == nil {
			place.Kind, place.Base, place.Offset = uint8(bpf.TracePlaceKindPLACE_MEMORY), base, offset
		}
	}
	return place
}

// scale returns what an index is multiplied by.
func (m *machine) scale(text string) uint32 {
	n, _ := strconv.ParseUint("0"+text, 10, 32) // 0 if it is missing
	if m.shifts {
		return 1 << n
	}
	return uint32(max(n, 1))
}

// MayBeText reports whether an argument may be the address of a text: it is as long as one and has
// no sign (bpf/usdt.h: may_be_text).
func MayBeText(place bpf.TracePlace) bool {
	const address = 8 // bytes
	return bpf.TracePlaceKind(place.Kind) != bpf.TracePlaceKindPLACE_NONE && place.Size == address && place.IsSigned == 0
}

const registerBytes = 8 // of a field of struct pt_regs

// placeOnARM64 returns where struct pt_regs has the register that x19 or w19 are, or sp.
func placeOnARM64(name string) (at, high uint16, ok bool) {
	const stackPointer = 31
	n, err := strconv.ParseUint(name[1:], 10, 16)
	if name == "sp" {
		n, err = stackPointer, nil
	} else if n >= stackPointer {
		return 0, 0, false
	}
	return uint16(n * registerBytes), 0, err == nil
}

// registers of x86-64 in the order of the kernel's struct pt_regs (bpf/regs.h).
var registers = []string{"r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8", "ax", "cx", "dx", "si", "di", "orig_ax", "ip", "cs", "flags", "sp"}

// placeOnX86 returns where struct pt_regs has the register that a part of it, such as eax, al
// or r8d, belongs to; high is 1 for the second byte, such as ah.
func placeOnX86(name string) (at, high uint16, ok bool) {
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
	return uint16(max(i, 0) * registerBytes), high, i >= 0
}
