package x86

import "testing"

// meaning returns an instruction without what has no meaning for its Kind.
func meaning(i Instruction) Instruction {
	m := Instruction{Kind: i.Kind, Length: i.Length, Reg: None}
	switch i.Kind {
	case Push, Pop, Write:
		m.Reg = i.Reg
	case SPToReg, RegToSP, LoadReg:
		m.Reg, m.Value = i.Reg, i.Value
	case AddSP, FPToSP, SPToFP, SaveFP, RestoreFP, Address, Call, Jump, Branch:
		m.Value = i.Value
	}
	return m
}

// An effect is what an instruction of objdump's syntax must be decoded to.
type effect struct {
	code, text string
	want       Instruction // without its length
}

func checkEffects(t *testing.T, effects []effect) {
	t.Helper()
	for _, tt := range effects {
		code := bytesOf(t, tt.code)
		want := tt.want
		if want.Length = uint8(len(code)); want.Reg == 0 {
			want.Reg = None // no Kind is about rax
		}
		if got := meaning(Decode(code)); got != want {
			t.Errorf("%s (%s) = %+v, want %+v", tt.text, tt.code, got, want)
		}
	}
}

func TestPushAndPop(t *testing.T) {
	checkEffects(t, []effect{
		{"53", "push %rbx", Instruction{Kind: Push, Reg: 3}},
		{"54", "push %rsp", Instruction{Kind: Push, Reg: SP}},
		{"41 52", "push %r10", Instruction{Kind: Push, Reg: R10}},
		{"41 57", "push %r15", Instruction{Kind: Push, Reg: 15}},
		{"42 55", "rex.X push %rbp", Instruction{Kind: Push, Reg: FP}},
		{"ff f5", "push %rbp", Instruction{Kind: Push, Reg: FP}},
		{"41 ff f5", "push %r13", Instruction{Kind: Push, Reg: 13}},
		{"ff 75 08", "push 8(%rbp)", Instruction{Kind: Push}},
		{"41 ff 72 f8", "push -8(%r10)", Instruction{Kind: Push}},
		{"ff 35 01 00 00 00", "push 1(%rip)", Instruction{Kind: Push}},
		{"68 00 01 00 00", "push $0x100", Instruction{Kind: Push}},
		{"9c", "pushf", Instruction{Kind: Push}},
		{"0f a0", "push %fs", Instruction{Kind: Push}},
		{"0f a8", "push %gs", Instruction{Kind: Push}},
		{"66 55", "push %bp", Instruction{Kind: SetSP}},
		{"66 68 01 02", "pushw $0x201", Instruction{Kind: SetSP}},
		{"66 9c", "pushfw", Instruction{Kind: SetSP}},
		{"5b", "pop %rbx", Instruction{Kind: Pop, Reg: 3}},
		{"41 5a", "pop %r10", Instruction{Kind: Pop, Reg: R10}},
		{"41 5c", "pop %r12", Instruction{Kind: Pop, Reg: 12}},
		{"41 5d", "pop %r13", Instruction{Kind: Pop, Reg: 13}},
		{"8f c5", "pop %rbp", Instruction{Kind: Pop, Reg: FP}},
		{"41 8f c5", "pop %r13", Instruction{Kind: Pop, Reg: 13}},
		{"8f c4", "pop %rsp", Instruction{Kind: SetSP}},
		{"8f 45 08", "pop 8(%rbp)", Instruction{Kind: Pop}},
		{"8f 04 24", "pop (%rsp)", Instruction{Kind: Pop}},
		{"9d", "popf", Instruction{Kind: Pop}},
		{"0f a1", "pop %fs", Instruction{Kind: Pop}},
		{"0f a9", "pop %gs", Instruction{Kind: Pop}},
		{"66 5d", "pop %bp", Instruction{Kind: SetSP}},
	})
}

func TestStackPointer(t *testing.T) {
	checkEffects(t, []effect{
		{"48 83 c4 08", "add $8,%rsp", Instruction{Kind: AddSP, Value: 8}},
		{"48 83 c4 80", "add $-128,%rsp", Instruction{Kind: AddSP, Value: -128}},
		{"48 83 ec 80", "sub $-128,%rsp", Instruction{Kind: AddSP, Value: 128}},
		{"48 81 ec 00 10 00 00", "sub $0x1000,%rsp", Instruction{Kind: AddSP, Value: -0x1000}},
		{"48 81 c4 78 ff ff ff", "add $-136,%rsp", Instruction{Kind: AddSP, Value: -136}},
		{"66 48 83 ec 18", "data16 sub $24,%rsp", Instruction{Kind: AddSP, Value: -24}},
		{"49 83 c4 08", "add $8,%r12", Instruction{Kind: Write, Reg: 12}},
		{"48 83 04 24 08", "addq $8,(%rsp)", Instruction{}},
		{"48 83 ec 00", "sub $0,%rsp", Instruction{Kind: AddSP}},
		{"83 ec 18", "sub $24,%esp", Instruction{Kind: SetSP}},
		{"66 83 ec 18", "sub $24,%sp", Instruction{Kind: SetSP}},
		{"48 81 e4 00 f0 ff ff", "and $-4096,%rsp", Instruction{Kind: SetSP}},
		{"48 83 cc 08", "or $8,%rsp", Instruction{Kind: SetSP}},
		{"48 83 dc 08", "sbb $8,%rsp", Instruction{Kind: SetSP}},
		{"48 01 c4", "add %rax,%rsp", Instruction{Kind: SetSP}},
		{"48 03 e0", "add %rax,%rsp", Instruction{Kind: SetSP}},
		{"48 03 23", "add (%rbx),%rsp", Instruction{Kind: SetSP}},
		{"48 39 c4", "cmp %rax,%rsp", Instruction{}},
		{"48 3b e0", "cmp %rax,%rsp", Instruction{}},
		{"48 85 e4", "test %rsp,%rsp", Instruction{}},
		{"48 29 e0", "sub %rsp,%rax", Instruction{}},
		{"48 94", "xchg %rax,%rsp", Instruction{Kind: SetSP}},
		{"48 87 e3", "xchg %rsp,%rbx", Instruction{Kind: SetSP}},
		{"48 87 dc", "xchg %rbx,%rsp", Instruction{Kind: SetSP}},
		{"48 ff c4", "inc %rsp", Instruction{Kind: SetSP}},
		{"48 ff cc", "dec %rsp", Instruction{Kind: SetSP}},
		{"48 f7 dc", "neg %rsp", Instruction{Kind: SetSP}},
		{"48 c1 e4 04", "shl $4,%rsp", Instruction{Kind: SetSP}},
		{"48 c7 c4 00 00 00 00", "mov $0,%rsp", Instruction{Kind: SetSP}},
		{"bc 00 00 00 00", "mov $0,%esp", Instruction{Kind: SetSP}},
		{"48 0f 44 e0", "cmove %rax,%rsp", Instruction{Kind: SetSP}},
		{"48 8b 64 24 08", "mov 8(%rsp),%rsp", Instruction{Kind: SetSP}},
		{"48 8d 25 08 00 00 00", "lea 8(%rip),%rsp", Instruction{Kind: SetSP}},
		{"8d 64 24 08", "lea 8(%rsp),%esp", Instruction{Kind: SetSP}},
	})
}

func TestFramePointer(t *testing.T) {
	checkEffects(t, []effect{
		{"48 8b e5", "mov %rbp,%rsp", Instruction{Kind: FPToSP}},
		{"89 e5", "mov %esp,%ebp", Instruction{Kind: Write, Reg: FP}},
		{"8b ec", "mov %esp,%ebp", Instruction{Kind: Write, Reg: FP}},
		{"89 ec", "mov %ebp,%esp", Instruction{Kind: SetSP}},
		{"8b e5", "mov %ebp,%esp", Instruction{Kind: SetSP}},
		{"49 89 ed", "mov %rbp,%r13", Instruction{Kind: Write, Reg: 13}},
		{"4c 89 ed", "mov %r13,%rbp", Instruction{Kind: Write, Reg: FP}},
		{"49 8b ec", "mov %r12,%rbp", Instruction{Kind: Write, Reg: FP}},
		{"4c 8b e5", "mov %rbp,%r12", Instruction{Kind: Write, Reg: 12}},
		{"48 89 e0", "mov %rsp,%rax", Instruction{}},
		{"4c 89 d4", "mov %r10,%rsp", Instruction{Kind: RegToSP, Reg: R10}},
		{"49 8b e2", "mov %r10,%rsp", Instruction{Kind: RegToSP, Reg: R10}},
		{"48 8d 2c 24", "lea (%rsp),%rbp", Instruction{Kind: SPToFP}},
		{"48 8d ac 24 80 00 00 00", "lea 128(%rsp),%rbp", Instruction{Kind: SPToFP, Value: 128}},
		{"48 8d 65 00", "lea 0(%rbp),%rsp", Instruction{Kind: FPToSP}},
		{"48 8d a5 78 ff ff ff", "lea -136(%rbp),%rsp", Instruction{Kind: FPToSP, Value: -136}},
		{"48 8d 64 05 00", "lea 0(%rbp,%rax),%rsp", Instruction{Kind: SetSP}},
		{"49 8d 65 d8", "lea -40(%r13),%rsp", Instruction{Kind: RegToSP, Reg: 13, Value: -40}},
		{"49 8d 64 24 f8", "lea -8(%r12),%rsp", Instruction{Kind: RegToSP, Reg: 12, Value: -8}},
		{"48 8d 5c 24 10", "lea 16(%rsp),%rbx", Instruction{Kind: SPToReg, Reg: 3, Value: 16}},
		{"4a 8d 6c 24 08", "lea 8(%rsp,%r12),%rbp", Instruction{Kind: Write, Reg: FP}},
		{"48 8d 44 24 10", "lea 16(%rsp),%rax", Instruction{}},
		{"48 89 2c 24", "mov %rbp,(%rsp)", Instruction{Kind: SaveFP}},
		{"48 89 ac 24 80 00 00 00", "mov %rbp,128(%rsp)", Instruction{Kind: SaveFP, Value: 128}},
		{"48 89 6c 24 f8", "mov %rbp,-8(%rsp)", Instruction{Kind: SaveFP, Value: -8}},
		{"89 6c 24 08", "mov %ebp,8(%rsp)", Instruction{}},
		{"48 89 6c 04 08", "mov %rbp,8(%rsp,%rax)", Instruction{}},
		{"49 89 6c 24 08", "mov %rbp,8(%r12)", Instruction{}},
		{"48 89 2c 25 08 00 00 00", "mov %rbp,0x8", Instruction{}},
		{"48 8b 2c 24", "mov (%rsp),%rbp", Instruction{Kind: RestoreFP}},
		{"48 8b ac 24 80 00 00 00", "mov 128(%rsp),%rbp", Instruction{Kind: RestoreFP, Value: 128}},
		{"48 8b 6d 00", "mov 0(%rbp),%rbp", Instruction{Kind: Write, Reg: FP}},
		{"8b 6c 24 08", "mov 8(%rsp),%ebp", Instruction{Kind: Write, Reg: FP}},
		{"48 8b 6c 04 08", "mov 8(%rsp,%rax),%rbp", Instruction{Kind: Write, Reg: FP}},
		{"49 8b 6c 24 08", "mov 8(%r12),%rbp", Instruction{Kind: Write, Reg: FP}},
		{"48 8b 5d f8", "mov -8(%rbp),%rbx", Instruction{Kind: LoadReg, Reg: 3, Value: -8}},
		{"4c 8b bd 00 ff ff ff", "mov -256(%rbp),%r15", Instruction{Kind: LoadReg, Reg: 15, Value: -256}},
		{"49 8b 5d f8", "mov -8(%r13),%rbx", Instruction{Kind: Write, Reg: 3}},
		{"48 8b 5c 05 f8", "mov -8(%rbp,%rax),%rbx", Instruction{Kind: Write, Reg: 3}},
		{"8b 5d f8", "mov -8(%rbp),%ebx", Instruction{Kind: Write, Reg: 3}},
		{"48 8b 45 f8", "mov -8(%rbp),%rax", Instruction{}},
		{"c9", "leave", Instruction{Kind: Leave}},
		{"c8 00 00 00", "enter $0,$0", Instruction{Kind: SetSP}},
	})
}

// TestWrites changes each register in the ways there are: of the first ones only rbx and
// rbp count, of the others r10 and r12 to r15.
func TestWrites(t *testing.T) {
	noted := map[byte]bool{3: true, FP: true, R10: true, 12: true, 13: true, 14: true, 15: true}
	for text, write := range map[string]func(low, high byte) []byte{
		"mov %eax,reg":    func(low, high byte) []byte { return []byte{0x40 | high, 0x89, 0xc0 | low} },
		"mov reg8,reg":    func(low, high byte) []byte { return []byte{0x40 | high<<2, 0x8b, 0xc0 | low<<3} },
		"mov $1,reg":      func(low, high byte) []byte { return []byte{0x40 | high, 0xb8 | low, 1, 0, 0, 0} },
		"movq $1,reg":     func(low, high byte) []byte { return []byte{0x48 | high, 0xc7, 0xc0 | low, 1, 0, 0, 0} },
		"xor %eax,reg":    func(low, high byte) []byte { return []byte{0x40 | high, 0x31, 0xc0 | low} },
		"add (%rax),reg":  func(low, high byte) []byte { return []byte{0x48 | high<<2, 0x03, low << 3} },
		"and $1,reg":      func(low, high byte) []byte { return []byte{0x40 | high, 0x83, 0xe0 | low, 1} },
		"or $1,reg":       func(low, high byte) []byte { return []byte{0x48 | high, 0x81, 0xc8 | low, 1, 0, 0, 0} },
		"shl $1,reg":      func(low, high byte) []byte { return []byte{0x40 | high, 0xd1, 0xe0 | low} },
		"sar %cl,reg":     func(low, high byte) []byte { return []byte{0x40 | high, 0xd3, 0xf8 | low} },
		"not reg":         func(low, high byte) []byte { return []byte{0x40 | high, 0xf7, 0xd0 | low} },
		"dec reg":         func(low, high byte) []byte { return []byte{0x40 | high, 0xff, 0xc8 | low} },
		"xchg reg,%rax":   func(low, high byte) []byte { return []byte{0x48 | high, 0x90 | low} },
		"movslq":          func(low, high byte) []byte { return []byte{0x48 | high<<2, 0x63, low << 3} },
		"imul $3":         func(low, high byte) []byte { return []byte{0x48 | high<<2, 0x6b, 0xc0 | low<<3, 3} },
		"imul $768":       func(low, high byte) []byte { return []byte{0x48 | high<<2, 0x69, 0xc0 | low<<3, 0, 3, 0, 0} },
		"imul":            func(low, high byte) []byte { return []byte{0x48 | high<<2, 0x0f, 0xaf, 0xc0 | low<<3} },
		"cmovne":          func(low, high byte) []byte { return []byte{0x48 | high<<2, 0x0f, 0x45, low << 3} },
		"movzbl":          func(low, high byte) []byte { return []byte{0x40 | high<<2, 0x0f, 0xb6, low << 3} },
		"movswl":          func(low, high byte) []byte { return []byte{0x40 | high<<2, 0x0f, 0xbf, low << 3} },
		"popcnt":          func(low, high byte) []byte { return []byte{0xf3, 0x48 | high<<2, 0x0f, 0xb8, 0xc0 | low<<3} },
		"bsf":             func(low, high byte) []byte { return []byte{0x48 | high<<2, 0x0f, 0xbc, 0xc0 | low<<3} },
		"mov %ax,reg":     func(low, high byte) []byte { return []byte{0x66, 0x40 | high, 0x89, 0xc0 | low} },
		"mov $1,reg16":    func(low, high byte) []byte { return []byte{0x66, 0x40 | high, 0xb8 | low, 1, 0} },
		"mov %ds,reg":     func(low, high byte) []byte { return []byte{0x40 | high, 0x8c, 0xd8 | low} },
		"mov %al,reg":     func(low, high byte) []byte { return []byte{0x40 | high, 0x88, 0xc0 | low} },
		"mov (%rax),reg8": func(low, high byte) []byte { return []byte{0x40 | high<<2, 0x8a, low << 3} },
		"mov $1,reg8":     func(low, high byte) []byte { return []byte{0x40 | high, 0xb0 | low, 1} },
		"movb $1,reg8":    func(low, high byte) []byte { return []byte{0x40 | high, 0xc6, 0xc0 | low, 1} },
		"add %al,reg":     func(low, high byte) []byte { return []byte{0x40 | high, 0x00, 0xc0 | low} },
		"xor (%rax),reg8": func(low, high byte) []byte { return []byte{0x40 | high<<2, 0x32, low << 3} },
		"or $1,reg8":      func(low, high byte) []byte { return []byte{0x40 | high, 0x80, 0xc8 | low, 1} },
		"rol $3,reg8":     func(low, high byte) []byte { return []byte{0x40 | high, 0xc0, 0xc0 | low, 3} },
		"shl $1,reg8":     func(low, high byte) []byte { return []byte{0x40 | high, 0xd0, 0xe0 | low} },
		"shr %cl,reg8":    func(low, high byte) []byte { return []byte{0x40 | high, 0xd2, 0xe8 | low} },
		"neg reg8":        func(low, high byte) []byte { return []byte{0x40 | high, 0xf6, 0xd8 | low} },
		"dec reg8":        func(low, high byte) []byte { return []byte{0x40 | high, 0xfe, 0xc8 | low} },
		"xchg reg8,%al":   func(low, high byte) []byte { return []byte{0x40 | high<<2, 0x86, 0xc0 | low<<3} },
		"xchg %al,reg8":   func(low, high byte) []byte { return []byte{0x40 | high, 0x86, 0xc0 | low} },
		"setne":           func(low, high byte) []byte { return []byte{0x40 | high, 0x0f, 0x95, 0xc0 | low} },
		"cmpxchg %al":     func(low, high byte) []byte { return []byte{0x40 | high, 0x0f, 0xb0, 0xc0 | low} },
		"cmpxchg %eax":    func(low, high byte) []byte { return []byte{0x40 | high, 0x0f, 0xb1, 0xc0 | low} },
		"xadd %al":        func(low, high byte) []byte { return []byte{0x40 | high, 0x0f, 0xc0, 0xc0 | low} },
		"xadd reg,(%rax)": func(low, high byte) []byte { return []byte{0x48 | high<<2, 0x0f, 0xc1, low << 3} },
		"bswap":           func(low, high byte) []byte { return []byte{0x48 | high, 0x0f, 0xc8 | low} },
		"lsl":             func(low, high byte) []byte { return []byte{0x48 | high<<2, 0x0f, 0x03, low << 3} },
		"shld $1":         func(low, high byte) []byte { return []byte{0x48 | high, 0x0f, 0xa4, 0xc0 | low, 1} },
		"btr %rax":        func(low, high byte) []byte { return []byte{0x48 | high, 0x0f, 0xb3, 0xc0 | low} },
		"bts $1":          func(low, high byte) []byte { return []byte{0x48 | high, 0x0f, 0xba, 0xe8 | low, 1} },
		"rdrand":          func(low, high byte) []byte { return []byte{0x48 | high, 0x0f, 0xc7, 0xf0 | low} },
		"rdfsbase":        func(low, high byte) []byte { return []byte{0xf3, 0x48 | high, 0x0f, 0xae, 0xc0 | low} },
		"movq %xmm0":      func(low, high byte) []byte { return []byte{0x66, 0x48 | high, 0x0f, 0x7e, 0xc0 | low} },
		"cvttsd2si":       func(low, high byte) []byte { return []byte{0xf2, 0x48 | high<<2, 0x0f, 0x2c, 0xc0 | low<<3} },
		"movmskpd":        func(low, high byte) []byte { return []byte{0x66, 0x40 | high<<2, 0x0f, 0x50, 0xc0 | low<<3} },
		"movbe":           func(low, high byte) []byte { return []byte{0x48 | high<<2, 0x0f, 0x38, 0xf0, low << 3} },
		"crc32":           func(low, high byte) []byte { return []byte{0xf2, 0x48 | high<<2, 0x0f, 0x38, 0xf1, 0xc0 | low<<3} },
		"adox":            func(low, high byte) []byte { return []byte{0xf3, 0x48 | high<<2, 0x0f, 0x38, 0xf6, 0xc0 | low<<3} },
		"pextrd $1":       func(low, high byte) []byte { return []byte{0x66, 0x40 | high, 0x0f, 0x3a, 0x16, 0xc0 | low, 1} },
		"andn":            func(low, high byte) []byte { return []byte{0xc4, 0xe2 ^ high<<7, 0x78, 0xf2, 0xc0 | low<<3} },
		"pdep":            func(low, high byte) []byte { return []byte{0xc4, 0xe2 ^ high<<7, 0xfb, 0xf5, 0xc0 | low<<3} },
		"bextr":           func(low, high byte) []byte { return []byte{0xc4, 0xe2 ^ high<<7, 0x78, 0xf7, 0xc0 | low<<3} },
		"shlx":            func(low, high byte) []byte { return []byte{0xc4, 0xe2 ^ high<<7, 0x79, 0xf7, low << 3} },
		"blsr":            func(low, high byte) []byte { return []byte{0xc4, 0xe2, 0x78 ^ high<<6 ^ low<<3, 0xf3, 0xc8} },
		"mulx reg,%eax":   func(low, high byte) []byte { return []byte{0xc4, 0xe2 ^ high<<7, 0x7b, 0xf6, 0xc0 | low<<3} },
		"mulx %eax,reg":   func(low, high byte) []byte { return []byte{0xc4, 0xe2, 0x7b ^ high<<6 ^ low<<3, 0xf6, 0xc0} },
		"rorx $1":         func(low, high byte) []byte { return []byte{0xc4, 0xe3 ^ high<<7, 0x7b, 0xf0, 0xc0 | low<<3, 1} },
		"vmovd":           func(low, high byte) []byte { return []byte{0xc4, 0xe1 ^ high<<5, 0x79, 0x7e, 0xc0 | low} },
		"vcvttsd2si":      func(low, high byte) []byte { return []byte{0xc5, 0xfb ^ high<<7, 0x2c, 0xc0 | low<<3} },
		"vpextrd $1":      func(low, high byte) []byte { return []byte{0xc4, 0xe3 ^ high<<5, 0x79, 0x16, 0xc0 | low, 1} },
		"kmovw":           func(low, high byte) []byte { return []byte{0xc5, 0xf8 ^ high<<7, 0x93, 0xc0 | low<<3} },
		"lzcnt":           func(low, high byte) []byte { return []byte{0xf3, 0x48 | high<<2, 0x0f, 0xbd, 0xc0 | low<<3} },
	} {
		for register := range byte(16) {
			code := write(register&7, register>>3)
			want := Instruction{Length: uint8(len(code)), Reg: None}
			if register == SP {
				want.Kind = SetSP
			} else if noted[register] {
				want.Kind, want.Reg = Write, register
			}
			if got := meaning(Decode(code)); got != want {
				t.Errorf("%s, register %d (% x) = %+v, want %+v", text, register, code, got, want)
			}
		}
	}
}

// TestReads has instructions that name rbp or rsp and do not change them.
func TestReads(t *testing.T) {
	for _, text := range []string{
		"85 ed", "f7 c5 01 00 00 00", "48 39 e5", "48 3b ec", "48 83 fd 01", "48 81 fd 00 01 00 00", "f7 e5", "f7 fd", "89 2f", "01 2f", "48 89 65 00",
		"83 45 00 01", "c7 45 00 01 00 00 00", "d1 65 00", "f7 5d 00", "ff 45 00", "0f 10 6c 24 08", "f2 0f 10 e5", "66 0f 6f ec", "c5 fc 10 6d 00",
		"0f a3 e8", "0f ba e5 01", "48 a5", "f3 aa", "48 98", "48 99", "0f 05", "0f a2", "d9 45 08",
		"38 ed", "3a e8", "40 80 fd 01", "40 84 ed", "40 f6 c5 01", "40 f6 e5", "40 88 2f", "c6 45 00 01", "fe 4d 00", "0f 95 45 00", "f0 0f b1 2f",
		"b5 01", "88 e5", "0f 95 c5", "f3 0f 7e ec", "66 0f 7e 6d 00", "0f 38 f1 6d 00", "66 0f 3a 16 6d 00 01",
		"c5 e8 58 e9", "c4 e2 51 50 ec", "c4 e2 70 f3 cd", "c5 fa 7e ec", "c4 e2 70 f7 c5",
	} {
		code := bytesOf(t, text)
		if got, want := Decode(code), (Instruction{Length: uint8(len(code)), Reg: None}); got != want {
			t.Errorf("%s = %+v, want %+v", text, got, want)
		}
	}
}

// TestWritesOfTwo has what sets two registers, or the second byte of one.
func TestWritesOfTwo(t *testing.T) {
	checkEffects(t, []effect{
		{"48 87 dd", "xchg %rbx,%rbp", Instruction{Kind: Write, Reg: FP}},
		{"48 87 eb", "xchg %rbp,%rbx", Instruction{Kind: Write, Reg: FP}},
		{"40 86 eb", "xchg %bpl,%bl", Instruction{Kind: Write, Reg: FP}},
		{"48 0f c1 ec", "xadd %rbp,%rsp", Instruction{Kind: SetSP}},
		{"48 0f c1 e5", "xadd %rsp,%rbp", Instruction{Kind: SetSP}},
		{"c4 e2 e3 f6 e9", "mulx %rcx,%rbx,%rbp", Instruction{Kind: Write, Reg: FP}},
		{"c4 e2 d3 f6 d9", "mulx %rcx,%rbp,%rbx", Instruction{Kind: Write, Reg: FP}},
		{"b7 01", "mov $1,%bh", Instruction{Kind: Write, Reg: 3}},
		{"40 b7 01", "mov $1,%dil", Instruction{}},
		{"0f 95 c7", "setne %bh", Instruction{Kind: Write, Reg: 3}},
		{"b4 01", "mov $1,%ah", Instruction{}},
	})
}

func TestAddresses(t *testing.T) {
	checkEffects(t, []effect{
		{"48 8d 3d f0 ff ff ff", "lea -16(%rip),%rdi", Instruction{Kind: Address, Value: -16}},
		{"4c 8d 05 10 00 00 00", "lea 16(%rip),%r8", Instruction{Kind: Address, Value: 16}},
		{"48 8d 1d 10 00 00 00", "lea 16(%rip),%rbx", Instruction{Kind: Write, Reg: 3}},
		{"8d 3d 10 00 00 00", "lea 16(%rip),%edi", Instruction{}},
		{"48 8b 3d 10 00 00 00", "mov 16(%rip),%rdi", Instruction{}},
		{"48 8d 3c 25 10 00 00 00", "lea 0x10,%rdi", Instruction{}},
	})
}

func TestFlow(t *testing.T) {
	checkEffects(t, []effect{
		{"e8 f0 ff ff ff", "call, backward", Instruction{Kind: Call, Value: -16}},
		{"66 48 e8 10 00 00 00", "data16 rex.W call", Instruction{Kind: Call, Value: 16}},
		{"66 66 48 e8 10 00 00 00", "call __tls_get_addr", Instruction{Kind: Call, Value: 16}},
		{"ff 55 08", "call *8(%rbp)", Instruction{Kind: CallOther}},
		{"ff 15 10 00 00 00", "call *16(%rip)", Instruction{Kind: CallOther}},
		{"41 ff d4", "call *%r12", Instruction{Kind: CallOther}},
		{"48 ff 18", "lcall *(%rax)", Instruction{Kind: CallOther}},
		{"eb 7f", "jmp, forward", Instruction{Kind: Jump, Value: 127}},
		{"eb 80", "jmp, backward", Instruction{Kind: Jump, Value: -128}},
		{"e9 00 ff ff ff", "jmp, far backward", Instruction{Kind: Jump, Value: -256}},
		{"f2 e9 00 01 00 00", "bnd jmp", Instruction{Kind: Jump, Value: 256}},
		{"ff 25 10 00 00 00", "jmp *16(%rip)", Instruction{Kind: JumpOther}},
		{"41 ff e3", "jmp *%r11", Instruction{Kind: JumpOther}},
		{"ff 24 c5 00 00 00 00", "jmp *(,%rax,8)", Instruction{Kind: JumpOther}},
		{"48 ff 28", "ljmp *(%rax)", Instruction{Kind: JumpOther}},
		{"70 80", "jo, backward", Instruction{Kind: Branch, Value: -128}},
		{"7f 7f", "jg, forward", Instruction{Kind: Branch, Value: 127}},
		{"2e 74 05", "je,pn", Instruction{Kind: Branch, Value: 5}},
		{"0f 80 00 ff ff ff", "jo, far backward", Instruction{Kind: Branch, Value: -256}},
		{"0f 8f 00 01 00 00", "jg, far", Instruction{Kind: Branch, Value: 256}},
		{"3e 0f 84 00 01 00 00", "je,pt", Instruction{Kind: Branch, Value: 256}},
		{"e0 fe", "loopne", Instruction{Kind: Branch, Value: -2}},
		{"e1 02", "loope", Instruction{Kind: Branch, Value: 2}},
		{"e2 fe", "loop", Instruction{Kind: Branch, Value: -2}},
		{"e3 10", "jrcxz", Instruction{Kind: Branch, Value: 16}},
		{"67 e3 10", "jecxz", Instruction{Kind: Branch, Value: 16}},
		{"c2 08 00", "ret $8", Instruction{Kind: Return}},
		{"f2 c3", "bnd ret", Instruction{Kind: Return}},
		{"cb", "lret", Instruction{Kind: Return}},
		{"48 cb", "lretq", Instruction{Kind: Return}},
		{"ca 08 00", "lret $8", Instruction{Kind: Return}},
		{"0f 0b", "ud2", Instruction{Kind: Stop}},
		{"f4", "hlt", Instruction{Kind: Stop}},
		{"cc", "int3", Instruction{Kind: Trap}},
		{"cd 03", "int $3", Instruction{}},
		{"ff c0", "inc %eax", Instruction{}},
	})
}

func TestNops(t *testing.T) {
	checkEffects(t, []effect{
		{"90", "nop", Instruction{Kind: Nop}},
		{"66 90", "xchg %ax,%ax", Instruction{Kind: Nop}},
		{"66 66 90", "data16 xchg %ax,%ax", Instruction{Kind: Nop}},
		{"f3 90", "pause", Instruction{Kind: Nop}},
		{"0f 1f 00", "nopl (%rax)", Instruction{Kind: Nop}},
		{"0f 1f 40 00", "nopl 0(%rax)", Instruction{Kind: Nop}},
		{"0f 1f 44 00 00", "nopl 0(%rax,%rax)", Instruction{Kind: Nop}},
		{"66 0f 1f 44 00 00", "nopw 0(%rax,%rax)", Instruction{Kind: Nop}},
		{"0f 1f 80 00 00 00 00", "nopl 0(%rax)", Instruction{Kind: Nop}},
		{"66 66 66 2e 0f 1f 84 00 00 00 00 00", "data16 data16 cs nopw", Instruction{Kind: Nop}},
		{"48 0f 1f c0", "nop %rax", Instruction{Kind: Nop}},
		{"f3 0f 1e fa", "endbr64", Instruction{Kind: Nop}},
		{"f3 0f 1e fb", "endbr32", Instruction{Kind: Nop}},
		{"41 90", "xchg %r8d,%eax", Instruction{}},
		{"49 92", "xchg %r10,%rax", Instruction{Kind: Write, Reg: R10}},
		{"93", "xchg %ebx,%eax", Instruction{Kind: Write, Reg: 3}},
		{"87 db", "xchg %ebx,%ebx", Instruction{Kind: Write, Reg: 3}},
		{"87 d8", "xchg %ebx,%eax", Instruction{Kind: Write, Reg: 3}},
		{"87 18", "xchg %ebx,(%rax)", Instruction{Kind: Write, Reg: 3}},
		{"87 45 00", "xchg %eax,0(%rbp)", Instruction{}},
	})
}
