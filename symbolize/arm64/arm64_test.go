package arm64

import (
	"encoding/binary"
	"testing"
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
		"vector":                  {assemble(0x4e080c00), Value{Of: Argument}},                                // dup v0.2d, x0
		"write back":              {assemble(0xf8408420, 0xaa0103e0), Value{Of: Opaque, At: 1}},               // ldr x0, [x1], #8; mov x0, x1
		"load of a pair":          {assemble(0xa9400001), Value{Of: Field, At: 8 << 8}},                       // ldp x1, x0, [x0]
		"thread pointer":          {assemble(0xd53bd040, 0x91400000, 0x91038000), Value{Of: Thread, N: 224}},  // mrs; add #0, lsl 12; add #224
		"zero":                    {assemble(0xaa1f03e0), Value{Of: Number}},                                  // mov x0, xzr
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
