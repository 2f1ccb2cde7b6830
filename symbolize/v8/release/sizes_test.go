package release_test

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const objectLiteral = `(f => (f(), f))(eval('(function () { return {a: 0, b: ' + 1000 * NN + '} })')) > - bytecode: > (0x\w+) <ObjectBoilerplateDescription`

// measureSizes sets the sizes of headers, by objects of which the end is known.
func measureSizes(m *measurement) error {
	p := m.probe("")
	boilerplate, err := common(m, objectLiteral, func(_ tagged, _ string, data []byte, number int) (headers []int, err error) {
		const unit = 8
		count := int(binary.LittleEndian.Uint64(data[8:]) >> 32)
		for _, last := range occurrences(data, uint64(1000*number)<<32, field{}) {
			headers = append(headers, last+unit-count*unit)
		}
		return headers, nil
	})
	if err != nil {
		return err
	}
	m.set("Sizes.BoilerplateDescription", boilerplate)

	_, text, err := p.find(strings.ReplaceAll(shared, "NN", "1") + " > ~BYTECODE_ARRAY_TYPE")
	if err != nil {
		return err
	}
	array, err := p.step(nil, text, "DebugPrint:")
	if err != nil {
		return err
	}
	data, err := p.read(uint64(array)-1, m.release.Sizes.BytecodeArray)
	if err != nil {
		return err
	}
	for offset, w := range words(data) {
		if kind := p.kind(p, tagged(w)); kind != "" && kind != "SMI" {
			m.release.Sizes.BytecodeArrayTagged = max(m.release.Sizes.BytecodeArrayTagged, offset+8)
		}
	}
	m.measured["Sizes.BytecodeArrayTagged"] = true
	return nil
}

// measureInstructions sets the header of the object that machine code is in. An
// InstructionStream has its size at byte 24; with a shorter header it is elsewhere.
func measureInstructions(m *measurement) error {
	const sizeOfStream = 24
	p := m.probe("")
	object := optimal + " > - code:"
	if m.release.Code.Streams {
		object += " > - instruction_stream:"
	}
	header, err := common(m, object, func(v tagged, text string, _ []byte, _ int) ([]int, error) {
		start, err := p.step(nil, text, `(?m)^(0x[0-9a-f]+)\s+0  `)
		return []int{int(start - v + 1)}, err
	})
	if err != nil {
		return err
	}
	m.set("Sizes.Code", 0)
	m.set("Sizes.InstructionStream", 0)
	switch {
	case !m.release.Code.Streams:
		m.set("Sizes.Code", header)
	case header > sizeOfStream:
		m.set("Sizes.InstructionStream", header)
	}
	if m.release.Sizes.Code == 0 {
		m.set("Sizes.CodeAlign", 0)
	}
	return nil
}

// measurePositions sets where code has its table of source positions: a byte array
// that is not the relocation information.
func measurePositions(m *measurement) error {
	if offset, ok := m.binary.lookup("class_Code__source_position_table__"); ok {
		m.set("Code.Positions", offset)
		return nil
	}
	p := m.probe("")
	found, err := common(m, optimal+" > - code:", func(_ tagged, text string, data []byte, _ int) (offsets []int, err error) {
		size := printedRelocations.FindStringSubmatch(text)
		if size == nil {
			return nil, fmt.Errorf("no relocation information in %.200q", text)
		}
		relocations := value("0x" + size[1])
		for offset, w := range words(data) {
			length, err := p.word(w + 7)
			if err == nil && strings.HasSuffix(p.kind(p, tagged(w)), "BYTE_ARRAY_TYPE") && length>>32 != uint64(relocations) {
				offsets = append(offsets, offset)
			}
		}
		return offsets, nil
	})
	if err == nil {
		m.set("Code.Positions", found)
	}
	return err
}

var (
	printedRelocations = regexp.MustCompile(`RelocInfo \(size = ([0-9a-f]+)\)`)
	printedScope       = regexp.MustCompile(`(?s)\n - scope type: (\w+_SCOPE\n.*)`) // and what is printed after it
)

// measureScopes sets the types of scopes.
func measureScopes(m *measurement) error {
	const object, typeBits, flags = `eval('(function () { let x = NN; return function () { return x } })')() > - context: > - scope_info:`, 0xf, 8
	v, _, err := m.probe("").find(strings.ReplaceAll(object, "NN", "1"))
	if err != nil {
		return err
	}
	word, err := m.probe("").word(uint64(v) - 1 + flags)
	if err != nil {
		return err
	}
	smi := uint32(word) == 0
	scopes := enum{object: object, offset: flags, mask: typeBits, name: printedScope}
	if smi {
		scopes.offset += 4
	}
	names, err := m.names(scopes)
	if err != nil {
		return err
	}
	known := m.release.Scopes
	var types, positions []string
	for i, text := range names {
		name, printed, _ := strings.Cut(text, "_SCOPE\n")
		name = strings.ToLower(strings.ReplaceAll(strings.TrimSuffix(name, "_MODE"), "_", " "))
		has := strings.Contains(printed, "- start position:")
		if text == "" { // V8 ends the process as it reads on
			if i >= len(known.Types) {
				continue
			}
			name = known.Types[i]
			has = slices.Contains(known.TypesWithPositions, name)
		}
		types = append(types, name)
		if has {
			positions = append(positions, name)
		}
	}
	if m.release.Scopes.Positions != 0 {
		positions = nil
	}
	m.set("Scopes.FlagsAreSmi", smi)
	m.set("Scopes.Types", types)
	m.set("Scopes.TypesWithPositions", positions)
	return nil
}

// measureStrings sets whether isolates share strings: then all types of strings
// have one bit more.
func measureStrings(m *measurement) error {
	const withoutShared = 64
	first, _ := m.binary.lookup("FirstNonstringType")
	m.set("Strings.SharedTypes", first > withoutShared)
	return nil
}
