package unwind

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// listed is an instruction of a listing: where it begins, and what a row has to say there.
type listed struct {
	at             uint32
	assembly, want string
}

// parseListing returns the code and the instructions of a listing. Each line of it has, with
// bars between: the bytes, the assembly, and what describe returns for its row.
func parseListing(t *testing.T, listing string) (code []byte, all []listed) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(listing)) {
		fields := strings.Split(line, "|")
		if len(fields) != 3 {
			t.Fatalf("line %q", line)
		}
		b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(fields[0]), " ", ""))
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		all = append(all, listed{codeStart + uint32(len(code)), strings.TrimSpace(fields[1]), strings.TrimSpace(fields[2])})
		code = append(code, b...)
	}
	return code, all
}

// describe returns where the caller's frame begins by a row and, in brackets, how many
// bytes below it the caller's frame pointer is, unless that is in the register.
func describe(r Row) string {
	base, distance := "", 8*int(r.Distance)
	switch {
	case r.Base == Unknown:
		return "unknown"
	case r.Base == FromSP:
		base = fmt.Sprintf("rsp+%d", distance)
	case r.Base == FromFP:
		base = fmt.Sprintf("rbp+%d", distance)
	case r.Base == SavedAtFP:
		base = fmt.Sprintf("*(rbp%d)", 8*(distance/8-1<<slotBits))
	case r.Base >= Register:
		base = fmt.Sprintf("r%d", r.Base-Register)
	}
	switch r.FP {
	case 0:
		return base
	case FPHere:
		return base + " (*rbp)"
	}
	return fmt.Sprintf("%s (-%d)", base, 8*int(r.FP))
}

// analyzed returns the states of an image's code by address, of each function as rows
// finds them. What no state is for, such as padding, is left out.
func analyzed(m *image) map[uint32]state {
	all := map[uint32]state{}
	f := flow{image: m}
	functions := m.functions(Span{m.regions[0].start, m.regions[0].end()})
	for i := len(functions) - 1; i >= 0; i-- {
		f.analyze(functions[i].Start, functions[i].End)
		for at, mark := range f.marks {
			if mark&visited != 0 {
				all[functions[i].Start+uint32(at)] = f.states[mark&^visited]
			}
		}
	}
	return all
}

// TestRowsOfListings compares the rows of small functions with what is true of their stack.
func TestRowsOfListings(t *testing.T) {
	for name, tt := range map[string]struct {
		listing string
		called  uint32 // where a function begins
		likely  []uint32
	}{
		"an early return in the middle": {listing: `
			55             | push %rbp        | rsp+8
			53             | push %rbx        | rsp+16 (-16)
			85 ff          | test %edi,%edi   | rsp+24 (-16)
			75 03          | jne 9            | rsp+24 (-16)
			5b             | pop %rbx         | rsp+24 (-16)
			5d             | pop %rbp         | rsp+16 (-16)
			c3             | ret              | rsp+8
			31 ed          | 9: xor %ebp,%ebp | rsp+24 (-16)
			5b             | pop %rbx         | rsp+24 (-16)
			5d             | pop %rbp         | rsp+16 (-16)
			c3             | ret              | rsp+8`},
		"paths that meet": {listing: `
			50             | push %rax        | rsp+8
			85 ff          | test %edi,%edi   | rsp+16
			74 05          | je 10            | rsp+16
			6a 01          | push $1          | rsp+16
			59             | pop %rcx         | rsp+24
			eb 02          | jmp 12           | rsp+16
			31 c9          | 10: xor %ecx,%ecx | rsp+16
			48 83 c4 08    | 12: add $8,%rsp  | rsp+16
			c3             | ret              | rsp+8`},
		"a loop": {listing: `
			53             | push %rbx        | rsp+8
			6a 07          | 1: push $7       | rsp+16
			58             | pop %rax         | rsp+24
			ff cf          | dec %edi         | rsp+16
			75 f9          | jne 1            | rsp+16
			5b             | pop %rbx         | rsp+16
			c3             | ret              | rsp+8`},
		"a push in a loop": {listing: `
			55             | push %rbp        | rsp+8
			48 89 e5       | mov %rsp,%rbp    | rsp+16 (-16)
			57             | 4: push %rdi     | rbp+16 (-16)
			ff cf          | dec %edi         | rbp+16 (-16)
			75 fb          | jne 4            | rbp+16 (-16)
			c9             | leave            | rbp+16 (-16)
			c3             | ret              | rsp+8`},
		"a push in a loop, without frame pointer": {listing: `
			53             | push %rbx        | rsp+8
			57             | 1: push %rdi     | unknown
			ff cf          | dec %edi         | unknown
			75 fb          | jne 1            | unknown
			48 83 c4 20    | add $32,%rsp     | rsp+48
			5b             | pop %rbx         | rsp+16
			c3             | ret              | rsp+8`},
		"a tail jump": {listing: `
			53             | push %rbx        | rsp+8
			85 ff          | test %edi,%edi   | rsp+16
			74 06          | je 11            | rsp+16
			5b             | pop %rbx         | rsp+16
			e9 00 00 10 00 | jmp far away     | rsp+8
			5b             | 11: pop %rbx     | rsp+16
			c3             | ret              | rsp+8`},
		"a call that does not return, and padding": {
			listing: `
			50             | push %rax        | rsp+8
			e8 00 10 00 00 | call abort       | rsp+16
			66 90          | xchg %ax,%ax     | padding
			53             | 8: push %rbx     | rsp+8
			5b             | pop %rbx         | rsp+16
			c3             | ret              | rsp+8`,
			likely: []uint32{8},
		},
		"a call that does not return, before what a branch leads to": {listing: `
			50             | push %rax        | rsp+8
			85 ff          | test %edi,%edi   | rsp+16
			74 06          | je 11            | rsp+16
			51             | push %rcx        | rsp+16
			e8 00 10 00 00 | call abort       | rsp+24
			58             | 11: pop %rax     | rsp+16
			c3             | ret              | rsp+8`},
		"cases of a table": {listing: `
			53             | push %rbx        | rsp+8
			48 83 ec 10    | sub $16,%rsp     | rsp+16
			ff e0          | jmp *%rax        | rsp+32
			31 c0          | xor %eax,%eax    | rsp+32
			eb 05          | jmp 16           | rsp+32
			b8 01 00 00 00 | mov $1,%eax      | rsp+32
			48 83 c4 10    | 16: add $16,%rsp | rsp+32
			5b             | pop %rbx         | rsp+16
			c3             | ret              | rsp+8
			48 83 c4 10    | add $16,%rsp     | rsp+32
			5b             | pop %rbx         | rsp+16
			c3             | ret              | rsp+8`},
		"code that nothing leads to": {listing: `
			c3             | ret              | rsp+8
			5b             | pop %rbx         | rsp+32
			41 5c          | pop %r12         | rsp+24
			41 5d          | pop %r13         | rsp+16
			c3             | ret              | rsp+8
			41 55          | push %r13        | rsp+8
			41 5d          | pop %r13         | rsp+16
			c3             | ret              | rsp+8`},
		"code that says nothing of its depth": {listing: `
			c3             | ret              | rsp+8
			0f 0b          | ud2              | rsp+8`},
		"an aligned stack": {listing: `
			4c 8d 54 24 08 | lea 8(%rsp),%r10 | rsp+8
			48 83 e4 e0    | and $-32,%rsp    | rsp+8
			41 ff 72 f8    | push -8(%r10)    | r10
			55             | push %rbp        | r10
			48 89 e5       | mov %rsp,%rbp    | r10
			41 52          | push %r10        | r10 (*rbp)
			48 83 ec 28    | sub $40,%rsp     | *(rbp-8) (*rbp)
			ff d0          | call *%rax       | *(rbp-8) (*rbp)
			4c 8b 55 f8    | mov -8(%rbp),%r10 | *(rbp-8) (*rbp)
			c9             | leave            | *(rbp-8) (*rbp)
			49 8d 62 f8    | lea -8(%r10),%rsp | r10
			c3             | ret              | rsp+8`},
		"a part that is elsewhere": {
			listing: `
			51             | 0: push %rcx     | rsp+24
			e8 00 10 00 00 | call             | rsp+32
			59             | pop %rcx         | rsp+32
			eb 06          | jmp 15           | rsp+24
			53             | 9: push %rbx     | rsp+8
			50             | push %rax        | rsp+16
			85 ff          | test %edi,%edi   | rsp+24
			74 f1          | je 0             | rsp+24
			58             | 15: pop %rax     | rsp+24
			5b             | pop %rbx         | rsp+16
			c3             | ret              | rsp+8`,
			called: 9,
		},
		"a jump into an instruction": {listing: `
			50             | push %rax        | rsp+8
			74 01          | je 4             | rsp+16
			b8 58 c3 90 90 | mov $_,%eax; 4: pop %rax; ret | rsp+16
			58             | pop %rax         | rsp+16
			c3             | ret              | rsp+8`},
		"what is no instruction": {listing: `
			50             | push %rax        | rsp+8
			06             | (bad)            | unknown
			58             | pop %rax         | rsp+16
			c3             | ret              | rsp+8`},
		"an instruction that is cut": {listing: `
			50             | push %rax        | rsp+8
			48 81 c4       | add              | unknown`},
	} {
		t.Run(name, func(t *testing.T) {
			code, all := parseListing(t, tt.listing)
			m := imageOf(code)
			m.starts.add(codeStart + tt.called)
			for _, at := range tt.likely {
				m.likely.add(codeStart + at)
			}
			states := analyzed(m)
			for _, l := range all {
				got := "padding"
				if s, ok := states[l.at]; ok {
					got = describe(s.row())
				}
				if got != l.want {
					t.Errorf("at %d, %s: caller's frame at %s, want %s", l.at-codeStart, l.assembly, got, l.want)
				}
			}
		})
	}
}

func TestFunctionsBeginAtStarts(t *testing.T) {
	m := imageOf(make([]byte, 2*maxFunction+32))
	m.starts.add(codeStart + 16)
	m.starts.add(codeStart + 24)
	end := uint32(codeStart + 2*maxFunction + 32)
	want := []Span{
		{codeStart + 8, codeStart + 16},
		{codeStart + 16, codeStart + 24},
		{codeStart + 24, codeStart + 24 + maxFunction}, // larger than what is analyzed at once
		{codeStart + 24 + maxFunction, codeStart + 24 + 2*maxFunction},
		{codeStart + 24 + 2*maxFunction, end},
	}
	if got := m.functions(Span{codeStart + 8, end}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("functions = %#x, want %#x", got, want)
	}
	if got := m.functions(Span{codeStart - 16, end}); got != nil {
		t.Errorf("functions of what was not read = %#x, want none", got)
	}
}

func TestRowsAreBounded(t *testing.T) {
	code := []byte{0x53, 0x5b, 0xc3} // push %rbx; pop %rbx; ret, and the end: 4 rows
	all := []part{{Span{codeStart, codeStart + 3}, nil}}
	budget := anyWork + maxWork*len(code)
	for _, tt := range []struct{ limit, work, want int }{
		{100, 0, 4},
		{4, 0, 4},
		{3, 0, 0},
		{0, 0, 0},
		{-1, 0, 0},
		{100, budget, 4},
		{100, budget + 1, 0},
	} {
		m := imageOf(code)
		m.starts.add(codeStart)
		m.work = tt.work
		if got := m.rows(all, tt.limit); len(got) != tt.want {
			t.Errorf("limit %d after work %d: rows = %+v, want %d", tt.limit, tt.work, got, tt.want)
		}
	}
}
