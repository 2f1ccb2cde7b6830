package unwind

import (
	"testing"

	"ustack/symbolize/unwind/x86"
)

const rbx, r13 = 3, 13

// withReg returns an instruction that uses a register and no value.
func withReg(k x86.Kind, register uint8) x86.Instruction {
	return x86.Instruction{Kind: k, Reg: register}
}

// withValue returns an instruction that uses a value and no register.
func withValue(k x86.Kind, value int32) x86.Instruction {
	return x86.Instruction{Kind: k, Reg: x86.None, Value: value}
}

func TestStateAfterInstruction(t *testing.T) {
	for name, tt := range map[string]struct {
		before state
		i      x86.Instruction
		want   state
	}{
		"push":                           {entry, withReg(x86.Push, rbx), state{depth: 16}},
		"push of a constant":             {entry, withReg(x86.Push, x86.None), state{depth: 16}},
		"push of rbp":                    {entry, withReg(x86.Push, x86.FP), state{depth: 16, saved: 16}},
		"push of rbp behind another":     {state{depth: 16}, withReg(x86.Push, x86.FP), state{depth: 24, saved: 24}},
		"push of rbp that is saved":      {state{depth: 16, saved: 16}, withReg(x86.Push, x86.FP), state{depth: 24, saved: 16}},
		"push of rbp that is lost":       {state{depth: 8, saved: lost}, withReg(x86.Push, x86.FP), state{depth: 16, saved: lost}},
		"push at an unknown depth":       {state{frame: 16, saved: 16}, withReg(x86.Push, rbx), state{frame: 16, saved: 16}},
		"push of rbp at unknown depth":   {state{}, withReg(x86.Push, x86.FP), state{}},
		"push to the largest depth":      {state{depth: maxDepth - 8}, withReg(x86.Push, rbx), state{depth: maxDepth}},
		"push beyond the largest depth":  {state{depth: maxDepth}, withReg(x86.Push, rbx), state{}},
		"pop":                            {state{depth: 24, saved: 16}, withReg(x86.Pop, rbx), state{depth: 16, saved: 16}},
		"pop to memory":                  {state{depth: 24}, withReg(x86.Pop, x86.None), state{depth: 16}},
		"pop of rbp":                     {state{depth: 16, saved: 16}, withReg(x86.Pop, x86.FP), entry},
		"pop of rbp, which was a base":   {state{depth: 16, frame: 16, saved: 16}, withReg(x86.Pop, x86.FP), entry},
		"pop of rbp's slot elsewhere":    {state{depth: 16, saved: 16}, withReg(x86.Pop, rbx), entry},
		"pop of another word to rbp":     {state{depth: 24, frame: 16, saved: 16}, withReg(x86.Pop, x86.FP), state{depth: 16, saved: 16}},
		"pop to rbp, which is not saved": {state{depth: 16}, withReg(x86.Pop, x86.FP), state{depth: 8, saved: lost}},
		"pop of the return address":      {entry, withReg(x86.Pop, rbx), state{}},
		"pop at an unknown depth":        {state{frame: 24, saved: 16}, withReg(x86.Pop, rbx), state{frame: 24, saved: 16}},

		"sub from rsp":             {state{depth: 16, saved: 16}, withValue(x86.AddSP, -24), state{depth: 40, saved: 16}},
		"add to rsp":               {state{depth: 40, saved: 16}, withValue(x86.AddSP, 24), state{depth: 16, saved: 16}},
		"add that drops rbp":       {state{depth: 40, saved: 40}, withValue(x86.AddSP, 24), state{depth: 16}},
		"sub above a stored rbp":   {state{depth: 8, saved: 24}, withValue(x86.AddSP, -8), state{depth: 16, saved: 24}},
		"add of too much":          {state{depth: 40}, withValue(x86.AddSP, 40), state{}},
		"add of the largest":       {state{depth: 40}, withValue(x86.AddSP, 1<<31-1), state{}},
		"sub of the largest":       {state{depth: 40}, withValue(x86.AddSP, -1<<31), state{}},
		"sub beyond the depth":     {state{depth: 40}, withValue(x86.AddSP, -maxDepth), state{}},
		"rsp that is computed":     {state{depth: 40, saved: 16}, withReg(x86.SetSP, x86.None), state{saved: 16}},
		"rsp computed, with rbp":   {state{depth: 40, frame: 16, saved: 16}, withReg(x86.SetSP, x86.None), state{frame: 16, saved: 16}},
		"rsp of a register":        {state{depth: 40, saved: 16}, withReg(x86.RegToSP, rbx), state{saved: 16}},
		"rsp of rbp":               {state{depth: 40, frame: 16, saved: 16}, withValue(x86.FPToSP, 0), state{depth: 16, frame: 16, saved: 16}},
		"rsp of rbp, unknown":      {state{frame: 16, saved: 16}, withValue(x86.FPToSP, 0), state{depth: 16, frame: 16, saved: 16}},
		"rsp below rbp":            {state{frame: 16, saved: 16}, withValue(x86.FPToSP, -40), state{depth: 56, frame: 16, saved: 16}},
		"rsp of rbp without frame": {state{depth: 40, saved: 16}, withValue(x86.FPToSP, -40), state{saved: 16}},

		"mov of rsp to rbp":               {state{depth: 16, saved: 16}, withValue(x86.SPToFP, 0), state{depth: 16, frame: 16, saved: 16}},
		"lea of rsp to rbp":               {state{depth: 40, saved: 16}, withValue(x86.SPToFP, 16), state{depth: 40, frame: 24, saved: 16}},
		"lea of rsp to rbp, below":        {state{depth: 40, saved: 16}, withValue(x86.SPToFP, -88), state{depth: 40, frame: 128, saved: 16}},
		"rbp at the caller's frame":       {state{depth: 40, saved: 16}, withValue(x86.SPToFP, 40), state{depth: 40, saved: 16}},
		"rbp too far below":               {state{depth: 40, saved: 16}, withValue(x86.SPToFP, -maxDepth), state{depth: 40, saved: 16}},
		"rbp set before it is saved":      {entry, withValue(x86.SPToFP, 0), state{depth: 8, frame: 8, saved: lost}},
		"rbp set at an unknown depth":     {state{frame: 16, saved: 16}, withValue(x86.SPToFP, 0), state{saved: 16}},
		"rbp stored":                      {state{depth: 40}, withValue(x86.SaveFP, 24), state{depth: 40, saved: 16}},
		"rbp stored below rsp":            {entry, withValue(x86.SaveFP, -16), state{depth: 8, saved: 24}},
		"rbp stored twice":                {state{depth: 40, saved: 16}, withValue(x86.SaveFP, 0), state{depth: 40, saved: 16}},
		"rbp stored over the return":      {state{depth: 40}, withValue(x86.SaveFP, 32), state{depth: 40}},
		"rbp stored at an unknown depth":  {state{}, withValue(x86.SaveFP, -32), state{}},
		"rbp loaded":                      {state{depth: 40, saved: 16}, withValue(x86.RestoreFP, 24), state{depth: 40}},
		"rbp loaded from elsewhere":       {state{depth: 40, frame: 24, saved: 16}, withValue(x86.RestoreFP, 16), state{depth: 40, saved: 16}},
		"rbp loaded without being saved":  {state{depth: 40}, withValue(x86.RestoreFP, 24), state{depth: 40, saved: lost}},
		"leave":                           {state{depth: 64, frame: 16, saved: 16}, withReg(x86.Leave, x86.None), entry},
		"leave at an unknown depth":       {state{frame: 16, saved: 16}, withReg(x86.Leave, x86.None), entry},
		"leave, rbp pushed later":         {state{depth: 64, frame: 24, saved: 24}, withReg(x86.Leave, x86.None), state{depth: 16}},
		"leave without a frame":           {state{depth: 64, saved: 16}, withReg(x86.Leave, x86.None), state{saved: 16}},
		"rbp overwritten":                 {state{depth: 16, frame: 16, saved: 16}, withReg(x86.Write, x86.FP), state{depth: 16, saved: 16}},
		"rbp overwritten, not saved":      {entry, withReg(x86.Write, x86.FP), state{depth: 8, saved: lost}},
		"another register overwritten":    {state{depth: 16, frame: 16, saved: 16}, withReg(x86.Write, rbx), state{depth: 16, frame: 16, saved: 16}},
		"what does not matter":            {state{depth: 40, frame: 24, saved: 16}, withReg(x86.Other, x86.None), state{depth: 40, frame: 24, saved: 16}},
		"rsp to rbx, no frame is aligned": {entry, x86.Instruction{Kind: x86.SPToReg, Reg: rbx, Value: 8}, entry},
		"rsp to r10, not to the frame":    {state{depth: 16}, x86.Instruction{Kind: x86.SPToReg, Reg: x86.R10, Value: 8}, state{depth: 16}},
	} {
		if got := tt.before.after(tt.i); got != tt.want {
			t.Errorf("%s: after %+v: %+v, want %+v", name, tt.before, got, tt.want)
		}
	}
}

// A step is an instruction and what is known after it.
type step struct {
	i    x86.Instruction
	want Row
}

// aligning are the steps up to where the frame is aligned: lea 8(%rsp),reg; and $-32,%rsp.
func aligning(register uint8) []step {
	return []step{
		{x86.Instruction{Kind: x86.SPToReg, Reg: register, Value: 8}, Row{Distance: 1, Base: FromSP}},
		{withReg(x86.SetSP, x86.None), Row{Base: Register + Base(register)}},
	}
}

// TestAlignedFrames follows the frames that compilers align, from their functions' start.
func TestAlignedFrames(t *testing.T) {
	inRegister := func(register uint8) Row { return Row{Base: Register + Base(register)} }
	inSlot := func(slot int64) Row { return Row{Distance: savedAt(slot, 0), FP: FPHere, Base: SavedAtFP} }
	framed := Row{FP: FPHere, Base: Register + x86.R10}
	r10 := func(k x86.Kind, value int32) x86.Instruction {
		return x86.Instruction{Kind: k, Reg: x86.R10, Value: value}
	}
	prologue := append(
		aligning(x86.R10),
		step{withReg(x86.Push, x86.None), inRegister(x86.R10)}, // push -8(%r10)
		step{withReg(x86.Push, x86.FP), inRegister(x86.R10)},
		step{withValue(x86.SPToFP, 0), framed},
	)
	withSlot := append(prologue[:len(prologue):len(prologue)],
		step{withReg(x86.Push, rbx), framed},
		step{r10(x86.Push, 0), inSlot(-2)},
	)
	for name, steps := range map[string][]step{
		"gcc's, up to the return": append(withSlot[:len(withSlot):len(withSlot)],
			step{withValue(x86.AddSP, -64), inSlot(-2)},
			step{r10(x86.Write, 0), inSlot(-2)},
			step{r10(x86.LoadReg, -16), inSlot(-2)},
			step{withReg(x86.Pop, rbx), inSlot(-2)},
			step{withReg(x86.Leave, x86.None), inRegister(x86.R10)},
			step{r10(x86.RegToSP, -8), Row{Distance: 1, Base: FromSP}},
		),
		"with pops of what was pushed": append(withSlot[:len(withSlot):len(withSlot)],
			step{r10(x86.Write, 0), inSlot(-2)},
			step{r10(x86.Pop, 0), inSlot(-2)},
			step{withReg(x86.Pop, rbx), inSlot(-2)},
			step{withReg(x86.Pop, x86.FP), inRegister(x86.R10)},
			step{r10(x86.RegToSP, -8), Row{Distance: 1, Base: FromSP}},
		),
		"whose slot is not what is loaded": append(withSlot[:len(withSlot):len(withSlot)],
			step{r10(x86.LoadReg, -24), inSlot(-2)},
			step{withReg(x86.Leave, x86.None), Row{}},
		),
		"whose register is overwritten":   append(prologue[:len(prologue):len(prologue)], step{r10(x86.Write, 0), Row{}}),
		"of another register":             append(aligning(r13), step{withReg(x86.Push, x86.FP), inRegister(r13)}, step{r10(x86.Write, 0), inRegister(r13)}),
		"whose frame pointer is computed": append(aligning(x86.R10), step{withReg(x86.Push, x86.FP), inRegister(x86.R10)}, step{withReg(x86.Write, x86.FP), Row{}}),
		"whose frame pointer is not where it was pushed": append(aligning(x86.R10),
			step{withReg(x86.Push, x86.FP), inRegister(x86.R10)},
			step{withReg(x86.Push, rbx), inRegister(x86.R10)},
			step{withValue(x86.SPToFP, 0), Row{}},
		),
		"that is left without a frame pointer": append(aligning(r13),
			step{x86.Instruction{Kind: x86.RegToSP, Reg: r13, Value: -24}, Row{Distance: 3, Base: FromSP}},
		),
		"that is left to another place": append(aligning(r13),
			step{withReg(x86.RegToSP, rbx), inRegister(r13)},
			step{x86.Instruction{Kind: x86.RegToSP, Reg: r13}, Row{}},
		),
	} {
		s := entry
		for i, step := range steps {
			if s = s.after(step.i); s.row() != step.want {
				t.Errorf("a frame %s: row after instruction %d = %+v, want %+v (%+v)", name, i, s.row(), step.want, s)
			}
		}
	}
}

// TestRowOfState has what rows can express and what they cannot.
func TestRowOfState(t *testing.T) {
	live := func(a aligned) aligned {
		a.register, a.live = r13, true
		return a
	}
	for name, tt := range map[string]struct {
		s    state
		want Row
	}{
		"nothing":                     {state{}, Row{}},
		"the entry":                   {entry, Row{Distance: 1, Base: FromSP}},
		"a saved rbp":                 {state{depth: 48, saved: 24}, Row{Distance: 6, FP: 3, Base: FromSP}},
		"the largest depth":           {state{depth: maxDepth}, Row{Distance: maxDepth / 8, Base: FromSP}},
		"a depth that is no word":     {state{depth: 12}, Row{}},
		"the usual frame":             {state{depth: 64, frame: 16, saved: 16}, Row{Distance: 2, FP: 2, Base: FromFP}},
		"the usual frame, unknown":    {state{frame: 16, saved: 16}, Row{Distance: 2, FP: 2, Base: FromFP}},
		"another frame":               {state{depth: 64, frame: 24, saved: 16}, Row{Distance: 8, FP: 2, Base: FromSP}},
		"another frame, unknown":      {state{frame: 24, saved: 16}, Row{Distance: 3, FP: 2, Base: FromFP}},
		"a frame, and no word":        {state{depth: 12, frame: 24, saved: 16}, Row{Distance: 3, FP: 2, Base: FromFP}},
		"a frame that is no word":     {state{frame: 20, saved: 16}, Row{}},
		"rbp that is lost":            {state{depth: 8, saved: lost}, Row{}},
		"rbp that is lost, framed":    {state{depth: 16, frame: 16, saved: lost}, Row{}},
		"rbp at no word":              {state{depth: 64, saved: 20}, Row{}},
		"rbp as far as can be":        {state{depth: 4096, saved: 8 * (FPHere - 1)}, Row{Distance: 512, FP: FPHere - 1, Base: FromSP}},
		"rbp too far":                 {state{depth: 4096, saved: 8 * FPHere}, Row{}},
		"a register":                  {state{aligned: live(aligned{})}, Row{Base: Register + r13}},
		"a register, later":           {state{depth: 8, aligned: live(aligned{})}, Row{Distance: 1, Base: FromSP}},
		"a register that has changed": {state{aligned: aligned{register: r13}}, Row{}},
		"a register, and rbp here":    {state{aligned: live(aligned{here: true})}, Row{FP: FPHere, Base: Register + r13}},
		"rbp here, but no slot":       {state{aligned: aligned{register: r13, here: true}}, Row{}},
		"a slot":                      {state{aligned: aligned{register: r13, here: true, slot: -8}}, Row{Distance: savedAt(-1, 0), FP: FPHere, Base: SavedAtFP}},
		"a slot as far as can be":     {state{aligned: aligned{register: r13, here: true, slot: -8 * maxSlot}}, Row{Distance: savedAt(-maxSlot, 0), FP: FPHere, Base: SavedAtFP}},
		"a slot too far":              {state{aligned: aligned{register: r13, here: true, slot: -8 * (maxSlot + 1)}}, Row{}},
		"a slot at no word":           {state{aligned: aligned{register: r13, here: true, slot: -12}}, Row{}},
		"a slot, but rbp elsewhere":   {state{aligned: aligned{register: r13, slot: -8}}, Row{}},
	} {
		got := tt.s.row()
		if got != tt.want {
			t.Errorf("%s: row of %+v = %+v, want %+v", name, tt.s, got, tt.want)
		}
		if known := tt.s.known(); known != (tt.want != Row{}) {
			t.Errorf("%s: known = %t for %+v", name, known, got)
		}
	}
}
