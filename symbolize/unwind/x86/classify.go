package x86

// reg and rm are the registers that an instruction names.
func (d *decoder) reg() byte { return d.modrm>>3&7 | d.rex&rexR<<1 }
func (d *decoder) rm() byte  { return d.modrm&7 | d.rex&rexB<<3 }

// direct reports whether rm is a register, not memory.
func (d *decoder) direct() bool { return d.modrm>>6 == 3 }

// base returns the register whose memory, at the displacement, the instruction uses; None
// if that is not all.
func (d *decoder) base() byte {
	const noIndex = 4
	switch {
	case d.direct() || d.modrm>>6 == 0 && d.modrm&7 == 5:
		return None
	case d.modrm&7 != 4:
		return d.rm()
	case d.sib>>3&7|d.rex&2<<2 != noIndex || d.modrm>>6 == 0 && d.sib&7 == 5:
		return None
	}
	return d.sib&7 | d.rex&rexB<<3
}

// classify fills in what an instruction with an opcode of one byte does.
func (d *decoder) classify(i *Instruction) {
	switch op := d.opcode; {
	case op < 0x40:
		d.arithmetic(i)
	case op < 0x58:
		d.push(i, op&7|d.rex&rexB<<3)
	case op < 0x60:
		d.pop(i, op&7|d.rex&rexB<<3)
	case op == 0x68 || op == 0x6a || op == 0x9c:
		d.push(i, None)
	case op == 0x9d:
		d.pop(i, None)
	case op == 0x8f && d.modrm&0x38 == 0:
		d.popTo(i)
	case op >= 0x70 && op < 0x80 || op >= 0xe0 && op <= 0xe3:
		i.Kind, i.Value = Branch, d.immediate
	case op >= 0x90 && op < 0x98:
		d.exchange(i)
	case op >= 0xb0 && op < 0xb8:
		d.writesByte(i, op&7|d.rex&rexB<<3)
	case op >= 0xb8 && op < 0xc0:
		d.writes(i, op&7|d.rex&rexB<<3)
	case op >= 0xc2 && op < 0xd0 && op&0xfe != 0xc6:
		d.leaves(i)
	case op >= 0xe0 && op&0xfe != 0xf6 && op != 0xfe:
		d.flow(i)
	default:
		d.moves(i)
	}
}

// classifySecond does so for those with two.
func (d *decoder) classifySecond(i *Instruction) {
	switch op := d.opcode; {
	case op&0xf0 == 0x80:
		i.Kind, i.Value = Branch, d.immediate
	case op == 0x1f || op == 0x1e && d.repeat == 0xf3 && d.direct(): // endbr64 too
		i.Kind = Nop
	case op == 0x0b:
		i.Kind = Stop
	case op == 0xa0 || op == 0xa8:
		d.push(i, None)
	case op == 0xa1 || op == 0xa9:
		d.pop(i, None)
	default:
		d.writesSecond(i)
	}
}

// writesSecond is for those after 0f, or with VEX, that set registers.
func (d *decoder) writesSecond(i *Instruction) {
	switch op := d.opcode; {
	case d.setsFirst():
		d.writes(i, d.reg())
	case op == 0xc0:
		d.writesBoth(i, d.byteRegister(d.reg()), d.byteRegister(d.rm()))
	case op == 0xc1:
		d.writesBoth(i, d.reg(), d.rm())
	case op&0xf8 == 0xc8: // bswap
		d.writes(i, op&7|d.rex&rexB<<3)
	case !d.direct():
	case op&0xf0 == 0x90 || op == 0xb0: // setcc, cmpxchg
		d.writesByte(i, d.rm())
	case d.setsSecond():
		d.writes(i, d.rm())
	}
}

// setsFirst reports whether an opcode after 0f sets the register that it names first: cmov,
// imul, movzx, movsx, popcnt, bsf, bsr, lar, lsl, lss and the like, and what moves to it
// from a vector.
func (d *decoder) setsFirst() bool {
	switch op := d.opcode; op {
	case 0x02, 0x03, 0x50, 0xaf, 0xb2, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xbc, 0xbd, 0xbe, 0xbf, 0xc5, 0xd7:
		return true
	case 0x2c, 0x2d:
		return d.repeat != 0
	default:
		return op&0xf0 == 0x40
	}
}

// setsSecond reports whether it sets the one that it names second: shld, shrd, bts, btr, btc,
// cmpxchg, movd, rdfsbase, rdgsbase, rdrand, rdseed.
func (d *decoder) setsSecond() bool {
	operation := d.modrm >> 3 & 7
	switch d.opcode {
	case 0xa4, 0xa5, 0xab, 0xac, 0xad, 0xb1, 0xb3, 0xbb:
		return true
	case 0x7e:
		return d.repeat != 0xf3
	case 0xae:
		return d.repeat == 0xf3 && operation < 2
	case 0xba:
		return operation > 4
	case 0xc7:
		return operation > 5
	}
	return false
}

// classify38 does so for those after 0f 38: movbe, crc32, adcx, adox.
func (d *decoder) classify38(i *Instruction) {
	switch {
	case d.opcode == 0xf0, d.opcode == 0xf1 && d.repeat == 0xf2, d.opcode == 0xf6 && (d.short || d.repeat == 0xf3):
		d.writes(i, d.reg())
	}
}

// classify3A does so for those after 0f 3a: pextr, extractps.
func (d *decoder) classify3A(i *Instruction) {
	if d.opcode&0xfc == 0x14 && d.direct() {
		d.writes(i, d.rm())
	}
}

// classifyVector does so for those with VEX that set general registers.
func (d *decoder) classifyVector(i *Instruction) {
	switch d.table {
	case 1:
		switch d.opcode {
		case 0x2c, 0x2d, 0x50, 0x7e, 0xc5, 0xd7:
			d.writesSecond(i)
		case 0x93: // kmov
			d.writes(i, d.reg())
		}
	case 2:
		switch d.opcode {
		case 0xf2, 0xf5, 0xf7: // andn, bzhi, pdep, pext, bextr, shifts
			d.writes(i, d.reg())
		case 0xf3: // blsr, blsmsk, blsi
			d.writes(i, d.other)
		case 0xf6: // mulx
			d.writes(i, d.other)
			d.writesToo(i, d.reg())
		}
	case 3:
		if d.classify3A(i); d.opcode == 0xf0 { // rorx
			d.writes(i, d.reg())
		}
	}
}

// writes notes that the instruction sets a register.
func (d *decoder) writes(i *Instruction, register byte) {
	switch register {
	case SP:
		i.Kind = SetSP
	case 3, FP, R10, 12, 13, 14, 15:
		i.Kind, i.Reg = Write, register
	}
}

// writesToo does so for a second register. The stack pointer counts most, then the frame
// pointer.
func (d *decoder) writesToo(i *Instruction, register byte) {
	if register == SP || i.Kind != SetSP && i.Reg != FP {
		d.writes(i, register)
	}
}

// writesBoth does so for two, of which the second may be memory.
func (d *decoder) writesBoth(i *Instruction, first, second byte) {
	if d.writes(i, first); d.direct() {
		d.writesToo(i, second)
	}
}

// writesByte does so for a register of which one byte is set.
func (d *decoder) writesByte(i *Instruction, register byte) { d.writes(i, d.byteRegister(register)) }

// byteRegister returns the register that an operand of one byte is in: without REX, some are
// second bytes.
func (d *decoder) byteRegister(register byte) byte {
	if d.rex == 0 {
		return register & 3
	}
	return register
}

func (d *decoder) push(i *Instruction, register byte) {
	if i.Kind, i.Reg = Push, register; d.short {
		i.Kind = SetSP
	}
}

func (d *decoder) pop(i *Instruction, register byte) {
	if i.Kind, i.Reg = Pop, register; d.short || register == SP {
		i.Kind = SetSP
	}
}

// popTo is pop with an operand that may be memory.
func (d *decoder) popTo(i *Instruction) {
	if d.direct() {
		d.pop(i, d.rm())
	} else {
		d.pop(i, None)
	}
}

func (d *decoder) exchange(i *Instruction) {
	if register := d.opcode&7 | d.rex&rexB<<3; register != 0 {
		d.writes(i, register)
	} else if d.rex&15 == 0 {
		i.Kind = Nop
	}
}

// arithmetic is of two operands, of which the opcode says which one is written.
func (d *decoder) arithmetic(i *Instruction) {
	const compare = 7
	if d.opcode>>3 == compare {
		return
	}
	switch first := d.opcode&2 != 0; {
	case d.opcode&1 == 0:
		d.writesOneByte(i, first)
	case first:
		d.writes(i, d.reg())
	case d.direct():
		d.writes(i, d.rm())
	}
}

// writesOneByte is for an operand of one byte, the one that is named first or second.
func (d *decoder) writesOneByte(i *Instruction, first bool) {
	if first {
		d.writesByte(i, d.reg())
	} else if d.direct() {
		d.writesByte(i, d.rm())
	}
}

// moves is for what moves words between registers and memory, or computes with one
// operand.
func (d *decoder) moves(i *Instruction) {
	wide := d.rex&rexW != 0
	switch d.opcode {
	case 0x81, 0x83:
		d.compute(i)
	case 0x89: // to rm
		switch {
		case d.direct() && wide:
			d.copies(i, d.reg(), d.rm())
		case d.direct():
			d.writes(i, d.rm())
		case wide && d.reg() == FP && d.base() == SP:
			i.Kind, i.Value = SaveFP, d.displacement
		}
	case 0x8b: // from rm
		switch {
		case d.direct() && wide:
			d.copies(i, d.rm(), d.reg())
		case wide && d.reg() == FP && d.base() == SP:
			i.Kind, i.Value = RestoreFP, d.displacement
		default:
			if d.writes(i, d.reg()); i.Kind == Write && i.Reg != FP && wide && d.base() == FP {
				i.Kind, i.Value = LoadReg, d.displacement
			}
		}
	case 0x8d:
		d.load(i)
	case 0x63, 0x69, 0x6b: // movsxd, imul
		d.writes(i, d.reg())
	case 0x87:
		d.writesBoth(i, d.reg(), d.rm())
	case 0x8c, 0xc1, 0xc7, 0xd1, 0xd3: // from a segment's register, shifts, a constant
		if d.direct() {
			d.writes(i, d.rm())
		}
	case 0xf7:
		if unary := d.modrm >> 3 & 7; d.direct() && (unary == 2 || unary == 3) {
			d.writes(i, d.rm())
		}
	default:
		d.movesByte(i)
	}
}

// movesByte does so for operands of one byte.
func (d *decoder) movesByte(i *Instruction) {
	const compare = 7
	operation := d.modrm >> 3 & 7
	switch d.opcode {
	case 0x86:
		d.writesBoth(i, d.byteRegister(d.reg()), d.byteRegister(d.rm()))
	case 0x8a:
		d.writesOneByte(i, true)
	case 0x88, 0xc0, 0xc6, 0xd0, 0xd2:
		d.writesOneByte(i, false)
	case 0x80:
		if operation != compare {
			d.writesOneByte(i, false)
		}
	case 0xf6:
		if operation == 2 || operation == 3 {
			d.writesOneByte(i, false)
		}
	case 0xfe:
		if operation < 2 {
			d.writesOneByte(i, false)
		}
	}
}

// compute is arithmetic with a constant.
func (d *decoder) compute(i *Instruction) {
	const add, sub, compare = 0, 5, 7
	operation := d.modrm >> 3 & 7
	if !d.direct() || operation == compare {
		return
	}
	d.writes(i, d.rm())
	if i.Kind != SetSP || d.rex&rexW == 0 {
		return
	}
	switch operation {
	case add:
		i.Kind, i.Value = AddSP, d.immediate
	case sub:
		i.Kind, i.Value = AddSP, -d.immediate
	}
}

// copies is mov between registers.
func (d *decoder) copies(i *Instruction, from, to byte) {
	switch {
	case from == FP && to == SP:
		i.Kind = FPToSP
	case from == SP && to == FP:
		i.Kind = SPToFP
	case to == SP:
		i.Kind, i.Reg = RegToSP, from
	default:
		d.writes(i, to)
	}
}

// load is lea.
func (d *decoder) load(i *Instruction) {
	register, base := d.reg(), d.base()
	d.writes(i, register)
	if d.rex&rexW == 0 {
		return
	}
	switch {
	case d.modrm&0xc7 == 5:
		if i.Kind == Other {
			i.Kind, i.Value = Address, d.displacement
		}
	case base == SP && register == SP:
		i.Kind, i.Value = AddSP, d.displacement
	case base == SP && register == FP:
		i.Kind, i.Value = SPToFP, d.displacement
	case base == SP && i.Kind == Write:
		i.Kind, i.Value = SPToReg, d.displacement
	case base == FP && register == SP:
		i.Kind, i.Value = FPToSP, d.displacement
	case base != None && register == SP:
		i.Kind, i.Reg, i.Value = RegToSP, base, d.displacement
	}
}

// leaves is for what ends functions.
func (d *decoder) leaves(i *Instruction) {
	switch d.opcode {
	case 0xc2, 0xc3, 0xca, 0xcb:
		i.Kind = Return
	case 0xc8: // enter
		i.Kind = SetSP
	case 0xc9:
		i.Kind = Leave
	case 0xcc:
		i.Kind = Trap
	}
}

// flow is for calls and jumps, and for what shares an opcode with some.
func (d *decoder) flow(i *Instruction) {
	switch d.opcode {
	case 0xe8:
		i.Kind, i.Value = Call, d.immediate
	case 0xe9, 0xeb:
		i.Kind, i.Value = Jump, d.immediate
	case 0xf4:
		i.Kind = Stop
	case 0xff:
		switch d.modrm >> 3 & 7 {
		case 0, 1:
			if d.direct() {
				d.writes(i, d.rm())
			}
		case 2, 3:
			i.Kind = CallOther
		case 4, 5:
			i.Kind = JumpOther
		case 6:
			d.push(i, None)
			if d.direct() {
				i.Reg = d.rm()
			}
		}
	}
}
