package release_test

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// An enum is a number in an object whose names V8 prints: the number is changed and
// the object printed again, in a process of its own.
type enum struct {
	object string         // leads to the object, as in a field
	offset int            // of the number's four bytes
	mask   uint32         // its bits in them, from bit 0
	name   *regexp.Regexp // finds the name in what V8 prints
}

// names returns the names by number. One at which V8 ends the process has none.
func (m *measurement) names(e enum) (names []string, err error) {
	for len(names) <= int(e.mask) {
		if names, err = m.moreNames(e, names); !errors.Is(err, io.ErrUnexpectedEOF) {
			return names, err
		}
		names = append(names, "")
	}
	return names, nil
}

// moreNames appends names until V8 ends the process.
func (m *measurement) moreNames(e enum, names []string) ([]string, error) {
	p := startProbe(m.t, m.node)
	p.kind = m.kind
	v, _, err := p.find(strings.ReplaceAll(e.object, "NN", "1"))
	if err != nil {
		return nil, err
	}
	address := uint64(v) - 1 + uint64(e.offset)
	data, err := p.read(address, 4)
	if err != nil {
		return nil, err
	}
	others := binary.LittleEndian.Uint32(data) &^ e.mask
	for number := uint32(len(names)); number <= e.mask; number++ {
		if _, err := p.memory.WriteAt(binary.LittleEndian.AppendUint32(nil, others|number), int64(address)); err != nil {
			return nil, err
		}
		text, err := p.describeAt(v)
		if err != nil {
			return names, err
		}
		found := e.name.FindStringSubmatch(text)
		if found == nil {
			return names, nil
		}
		names = append(names, found[1])
	}
	return names, nil
}

var (
	printedCodeKind     = regexp.MustCompile(`(?m)kind(?: =|:) (\w+)$`)
	nameless            = regexp.MustCompile(`(?m)^ - name: .*<(String\[0\]|no-shared-name)`)
	printedFunctionKind = regexp.MustCompile(`(?m)^ - kind: (\w+)$`)
)

// measureCodeKinds sets the kinds of code and where code has its kind.
func measureCodeKinds(m *measurement) error {
	const flags, mask = "class_Code__flags__", 0xf
	code := enum{object: optimal + " > - code:", mask: mask, name: printedCodeKind}
	offsets, err := m.kindOffsets(mask)
	if err != nil {
		return err
	}
	offset, known := m.binary.lookup(flags)
	if known {
		offsets = []int{int(offset)}
	}
	var names []string
	for _, code.offset = range offsets {
		if names, err = m.names(code); err != nil {
			return err
		}
		if slices.Contains(names, "BASELINE") {
			break
		}
	}
	number := func(constants ...string) int {
		return max(0, slices.IndexFunc(names, func(name string) bool { return slices.Contains(constants, name) }))
	}
	if number("BASELINE") == 0 || number("INTERPRETED_FUNCTION") == 0 {
		return fmt.Errorf("code kinds are %q", names)
	}
	m.set("Code.Flags", code.offset)
	if known {
		m.set("Code.Flags", 0)
	}
	if _, ok := m.binary.lookup("CodeKindFieldMask"); ok {
		m.set("Code.KindMask", 0)
		m.set("Code.Baseline", 0)
	} else {
		m.set("Code.KindMask", mask)
		m.set("Code.Baseline", number("BASELINE"))
	}
	m.set("Code.Interpreted", number("INTERPRETED_FUNCTION"))
	optimized, err := m.optimizedKind(code.offset, mask)
	if err != nil {
		return err
	}
	maglev := number("MAGLEV")
	if between := number("BASELINE") + 1; maglev == 0 && between == optimized-1 && names[between] == "" {
		maglev = between
	}
	m.set("Code.Maglev", maglev)
	m.set("Code.Turbofan", optimized)
	return nil
}

// optimizedKind returns the kind of optimized code.
func (m *measurement) optimizedKind(offset int, mask uint32) (int, error) {
	p := m.probe("")
	v, _, err := p.find(strings.ReplaceAll(optimal, "NN", "1") + " > - code:")
	if err != nil {
		return 0, err
	}
	data, err := p.read(uint64(v)-1+uint64(offset), 4)
	if err != nil {
		return 0, err
	}
	return int(binary.LittleEndian.Uint32(data) & mask), nil
}

// kindOffsets returns where code may have its kind: in bits that are a greater
// number for optimized code than for baseline code.
func (m *measurement) kindOffsets(mask uint32) (offsets []int, err error) {
	const builtins = 5 // kinds of code that no function is compiled to
	var kinds [2][]byte
	p := m.probe("")
	for i, object := range []string{compiled, optimal} {
		v, text, err := p.find(strings.ReplaceAll(object, "NN", "1") + " > - code:")
		if err != nil {
			return nil, err
		}
		if kinds[i], err = p.object(v, text); err != nil {
			return nil, err
		}
	}
	for o := 8; o < codeSize; o += 4 {
		baseline, optimized := binary.LittleEndian.Uint32(kinds[0][o:])&mask, binary.LittleEndian.Uint32(kinds[1][o:])&mask
		if baseline > builtins && optimized > baseline {
			offsets = append(offsets, o)
		}
	}
	return offsets, nil
}

// measureInitializers sets the kinds of the functions that initialize a class's
// fields, where those have no names.
func measureInitializers(m *measurement) error {
	const object, kindBits = `eval('(class { x = NN })') > class_fields_symbol\)>: > - shared_info:`, 0x1f
	_, text, err := m.probe("").find(strings.ReplaceAll(object, "NN", "1"))
	if err != nil {
		return err
	}
	if !nameless.MatchString(text) {
		m.set("Functions.MemberInitializerKind", 0)
		m.set("Functions.StaticInitializerKind", 0)
		return nil
	}
	offset, _ := m.binary.lookup("class_SharedFunctionInfo__flags__")
	names, err := m.names(enum{object: object, offset: int(offset), mask: kindBits, name: printedFunctionKind})
	if err != nil {
		return err
	}
	for field, name := range map[string]string{"Member": "ClassMembersInitializerFunction", "Static": "ClassStaticInitializerFunction"} {
		at := slices.Index(names, name)
		if at < 0 {
			return fmt.Errorf("no %s among the kinds %q", name, names)
		}
		m.set("Functions."+field+"InitializerKind", at)
	}
	return nil
}

// measureElements sets the elements kinds of typed arrays, which are in their maps.
func measureElements(m *measurement) error {
	p := m.probe("")
	bits, _ := m.binary.lookup("class_Map__bit_field2__")
	shift, ok := m.binary.lookup("bit_field2_elements_kind_shift")
	if !ok {
		return fmt.Errorf("no elements kind in the metadata")
	}
	type typed struct {
		kind int
		name string
	}
	var all []typed
	for _, name := range []string{"Int8", "Uint8", "Uint8Clamped", "Int16", "Uint16", "Int32", "Uint32", "Float16", "Float32", "Float64", "BigInt64", "BigUint64"} {
		text, err := p.evaluate("console.log(typeof keep.global." + name + "Array)")
		if err != nil {
			return err
		}
		if !strings.Contains(text, "function") {
			continue
		}
		v, _, err := p.find("new keep.global." + name + "Array(1) > - map:")
		if err != nil {
			return err
		}
		data, err := p.read(uint64(v)-1+uint64(bits), 1)
		if err != nil {
			return err
		}
		all = append(all, typed{int(data[0] >> shift), name})
	}
	slices.SortFunc(all, func(x, y typed) int { return cmp.Compare(x.kind, y.kind) })
	var names []string
	for i, t := range all {
		if t.kind != all[0].kind+i {
			return fmt.Errorf("elements kinds of typed arrays are %v", all)
		}
		names = append(names, t.name)
	}
	m.set("Objects.ElementsKind", all[0].kind)
	m.set("Objects.ElementsTypes", names)
	return nil
}
