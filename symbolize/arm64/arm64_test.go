package arm64

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// assemble returns code of these instructions.
func assemble(words ...uint32) []byte {
	var code []byte
	for _, w := range words {
		code = binary.LittleEndian.AppendUint32(code, w)
	}
	return code
}

func TestRegistersAreFollowed(t *testing.T) {
	for name, test := range map[string]struct {
		code []byte
		want Value // of x0
	}{
		"mov of a number":         {assemble(0xd29bd400), Value{Of: Number, N: 0xdea0}},                       // mov x0, #0xdea0
		"movk":                    {assemble(0xd2800020, 0xf2a00040), Value{Of: Number, N: 0x20001}},          // mov x0, #1; movk x0, #2, lsl 16
		"add to an argument":      {assemble(0xd29bd403, 0x8b030000), Value{Of: Argument, N: 0xdea0}},         // mov x3, #0xdea0; add x0, x0, x3
		"add of a shifted number": {assemble(0x91403c00), Value{Of: Argument, N: 15 << 12}},                   // add x0, x0, #15, lsl 12
		"sub":                     {assemble(0xd1004000), Value{Of: Argument, N: -16}},                        // sub x0, x0, #16
		"mov of bits":             {assemble(0xb2403fe0), Value{Of: Number, N: 0xffff}},                       // mov x0, #0xffff
		"what a call keeps":       {assemble(0xaa0103f3, 0x94000001, 0xaa1303e0), Value{Of: Argument, At: 1}}, // mov x19, x1; bl; mov x0, x19
		"what a call changes":     {assemble(0x94000001), Value{Of: Opaque}},                                  // bl
		"load of a variable":      {assemble(0xb0000000, 0xf9400400), Value{Of: Variable, At: 0x11008}},       // adrp x0, 0x11000; ldr x0, [x0, #8]
		"compare":                 {assemble(0xeb01001f), Value{Of: Argument}},                                // cmp x0, x1
		"branch":                  {assemble(0xb4000040), Value{Of: Argument}},                                // cbz x0
		"copy to a vector":        {assemble(0x4e080c00), Value{Of: Argument}},                                // dup v0.2d, x0
		"write back":              {assemble(0xf8408420, 0xaa0103e0), Value{Of: Opaque, At: 1}},               // ldr x0, [x1], #8; mov x0, x1
		"load of a pair":          {assemble(0xa9400001), Value{Of: Field, At: 8 << 8}},                       // ldp x1, x0, [x0]
		"thread pointer":          {assemble(0xd53bd040, 0x91400000, 0x91038000), Value{Of: Thread, N: 224}},  // mrs; add #0, lsl 12; add #224
		"zero":                    {assemble(0xaa1f03e0), Value{Of: Number}},                                  // mov x0, xzr
		"prefetch":                {assemble(0xf9800020), Value{Of: Argument}},                                // prfm pldl1keep, [x1]
		"prefetch by a register":  {assemble(0xf8a26820), Value{Of: Argument}},                                // prfm pldl1keep, [x1, x2]
		"prefetch below":          {assemble(0xf89f8020), Value{Of: Argument}},                                // prfum pldl1keep, [x1, #-8]
		"vector after":            {assemble(0x3cc10400), Value{Of: Opaque}},                                  // ldr q0, [x0], #16
		"vector before":           {assemble(0xfc1f0c08), Value{Of: Opaque}},                                  // str d8, [x0, #-16]!
		"vector pair after":       {assemble(0xacc10400), Value{Of: Opaque}},                                  // ldp q0, q1, [x0], #32
		"vector pair before":      {assemble(0x6dbf2408), Value{Of: Opaque}},                                  // stp d8, d9, [x0, #-16]!
		"vectors after":           {assemble(0x4cdf7000), Value{Of: Opaque}},                                  // ld1 {v0.16b}, [x0], #16
		"element after":           {assemble(0x0dc20c00), Value{Of: Opaque}},                                  // ld1 {v0.b}[3], [x0], x2
		"vector":                  {assemble(0x3dc00400), Value{Of: Argument}},                                // ldr q0, [x0, #16]
		"vectors":                 {assemble(0x4c007000), Value{Of: Argument}},                                // st1 {v0.16b}, [x0]
		"status of a store":       {assemble(0xc8007c41), Value{Of: Opaque}},                                  // stxr w0, x1, [x2]
		"compare and swap":        {assemble(0xc8a07c41), Value{Of: Opaque}},                                  // cas x0, x1, [x2]
		"second of a pair":        {assemble(0xc87f0041), Value{Of: Opaque}},                                  // ldxp x1, x0, [x2]
		"atomic add":              {assemble(0xf8210040), Value{Of: Opaque}},                                  // ldadd x1, x0, [x2]
		"element":                 {assemble(0x0e0c3c00), Value{Of: Opaque}},                                  // mov w0, v0.s[1]
		"signed element":          {assemble(0x4e022c00), Value{Of: Opaque}},                                  // smov x0, v0.h[0]
		"conversion":              {assemble(0x9e780000), Value{Of: Opaque}},                                  // fcvtzs x0, d0
		"fixed point":             {assemble(0x9e58f000), Value{Of: Opaque}},                                  // fcvtzs x0, d0, #4
		"and":                     {assemble(0x92401c00), Value{Of: Opaque}},                                  // and x0, x0, #0xff
		"select":                  {assemble(0x9a820020), Value{Of: Opaque}},                                  // csel x0, x1, x2, eq
		"add of 32 bits":          {assemble(0x11000420), Value{Of: Opaque}},                                  // add w0, w1, #1
		"adr":                     {assemble(0x10ffffe0), Value{Of: Number, N: 0xfffc}},                       // adr x0, #-4
		"load of a constant":      {assemble(0x58000080), Value{Of: Opaque}},                                  // ldr x0, #16
		"compare with a number":   {assemble(0xf100a81f), Value{Of: Argument}},                                // cmp x0, #42
		"repeated bits":           {assemble(0xb200f3e0), Value{Of: Number, N: 0x5555555555555555}},           // mov x0, #0x5555555555555555
		"movn of 32 bits":         {assemble(0x128001e0), Value{Of: Number, N: 0xfffffff0}},                   // mov w0, #-16
		"mov of 32 bits":          {assemble(0x2a0103e0), Value{Of: Opaque}},                                  // mov w0, w1
		"movn":                    {assemble(0x92800000), Value{Of: Number, N: -1}},                           // mov x0, #-1
	} {
		t.Run(name, func(t *testing.T) {
			var got Value
			for r := range Trace(append(test.code, assemble(0xd503201f)...), 0x10000) { // nop
				got = r[0]
			}
			if got != test.want {
				t.Errorf("x0 = %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestWhatInstructionsDo(t *testing.T) {
	const at = 0x10000
	argument := func(n int64) Value { return Value{Of: Argument, At: n} }
	for name, tt := range map[string]struct {
		code uint32
		want Event
	}{
		"b":         {0x17fffffe, Event{Leaves: true, Target: at - 8}},                                                                              // b #-8
		"bl":        {0x95ffffff, Event{Call: true, Target: at + 0x7fffffc}},                                                                        // bl #0x7fffffc
		"b.ne":      {0x54ffffe1, Event{Branches: true, Target: at - 4}},                                                                            // b.ne #-4
		"cbz":       {0xb4000800, Event{Branches: true, Target: at + 0x100}},                                                                        // cbz x0, #0x100
		"tbnz":      {0x371fff00, Event{Branches: true, Target: at - 32}},                                                                           // tbnz w0, #3, #-32
		"ret":       {0xd65f03c0, Event{Leaves: true}},                                                                                              // ret
		"blr":       {0xd63f0060, Event{Call: true}},                                                                                                // blr x3
		"br":        {0xd61f0200, Event{Leaves: true}},                                                                                              // br x16
		"cmp":       {0xf100a81f, Event{Constant: 42, HasConstant: true}},                                                                           // cmp x0, #42
		"add":       {0x91403c00, Event{Constant: 15 << 12, HasConstant: true}},                                                                     // add x0, x0, #15, lsl 12
		"movn":      {0x128001e0, Event{Constant: -16, HasConstant: true}},                                                                          // mov w0, #-16
		"prfm":      {0xf9800020, Event{}},                                                                                                          // prfm pldl1keep, [x1]
		"ldr q":     {0x3cc10400, Event{}},                                                                                                          // ldr q0, [x0], #16
		"ldr by x2": {0xf8627820, Event{Accesses: []Access{{Base: Value{Of: Opaque, At: SP}, Size: 8, What: Value{Of: Field, At: SP}}}}},            // ldr x0, [x1, x2, lsl #3]
		"ldur":      {0xf85f8020, Event{Accesses: []Access{{Base: argument(1), Offset: -8, Size: 8, What: Value{Of: Opaque}}}}},                     // ldur x0, [x1, #-8]
		"str w":     {0xb9000c23, Event{Accesses: []Access{{Store: true, Base: argument(1), Offset: 12, Size: 4, Register: 3, What: argument(3)}}}}, // str w3, [x1, #12]
		"before":    {0xf8410c20, Event{Accesses: []Access{{Base: argument(1), Offset: 16, Size: 8, What: Value{Of: Opaque}}}}},                     // ldr x0, [x1, #16]!
		"after":     {0xf8010420, Event{Accesses: []Access{{Store: true, Base: argument(1), Size: 8, What: argument(0)}}}},                          // str x0, [x1], #16
		"ldrb":      {0x39400c20, Event{Accesses: []Access{{Base: argument(1), Offset: 3, Size: 1, What: Value{Of: Opaque}}}}},                      // ldrb w0, [x1, #3]
		"ldp": {0xa97f0c22, Event{Accesses: []Access{ // ldp x2, x3, [x1, #-16]
			{Base: argument(1), Offset: -16, Size: 8, Register: 2, What: Value{Of: Opaque, At: 2}},
			{Base: argument(1), Offset: -8, Size: 8, Register: 3, What: Value{Of: Opaque, At: 3}},
		}}},
		"stp after": {0xa8810c22, Event{Accesses: []Access{ // stp x2, x3, [x1], #16
			{Store: true, Base: argument(1), Size: 8, Register: 2, What: argument(2)},
			{Store: true, Base: argument(1), Offset: 8, Size: 8, Register: 3, What: argument(3)},
		}}},
		"ldpsw": {0x69410c22, Event{Accesses: []Access{ // ldpsw x2, x3, [x1, #8]
			{Base: argument(1), Offset: 8, Size: 4, Register: 2, What: Value{Of: Opaque, At: 2}},
			{Base: argument(1), Offset: 12, Size: 4, Register: 3, What: Value{Of: Opaque, At: 3}},
		}}},
		"stp of zero": {0xa9000c3f, Event{Accesses: []Access{ // stp xzr, x3, [x1]
			{Store: true, Base: argument(1), Size: 8, Register: SP, What: Value{Of: Number}},
			{Store: true, Base: argument(1), Offset: 8, Size: 8, Register: 3, What: argument(3)},
		}}},
	} {
		r := AtStart()
		if diff := cmp.Diff(tt.want, Instruction(tt.code).Event(&r, at)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// FuzzTrace traces any code: each instruction changes only what it may.
func FuzzTrace(f *testing.F) {
	f.Add(assemble(0xf9800020, 0x3cc10400, 0xc8007c41, 0x0e0c3c00, 0xb200f3e0, 0xa9000c3f, 0x95ffffff), uint64(0x10000))
	f.Add(assemble(0xf8627820, 0x69410c22, 0xd65f03c0, 0x371fff00, 0x0dc20c00, 0x9e58f000), uint64(1<<64-8))
	f.Add(assemble(0xb2ffffff, 0x72e00000, 0x7fffffff, 0, 0xffffffff), uint64(0))
	f.Fuzz(func(t *testing.T, code []byte, address uint64) {
		count := 0
		for r, e := range Trace(code, address) {
			if count++; r[SP] != (Value{Of: Opaque, At: SP}) {
				t.Fatalf("what register %d has = %+v, want that it never changes", SP, r[SP])
			}
			if len(e.Accesses) > 2 || e.Call && e.Leaves || (e.Call || e.Leaves || e.Branches) && e.Accesses != nil {
				t.Fatalf("event = %+v", e)
			}
			for _, a := range e.Accesses {
				if a.Size < 1 || a.Size > 8 || a.Register > SP {
					t.Fatalf("access = %+v", a)
				}
			}
		}
		if count != len(code)/4 {
			t.Errorf("instructions = %d in %d bytes", count, len(code))
		}
	})
}
