package release_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// beyondKnown is how many numbers are tried after the last type in the metadata.
const beyondKnown = 64

// specialAPIObject is the first instance type of embedders' objects:
// kJSSpecialApiObjectType in V8's headers.
const specialAPIObject = 0x410

// apiObject is how V8 prints the other type of embedders' objects, JS_API_OBJECT_TYPE.
// The types that embedders add to it have higher numbers.
const apiObject = "[api object] 0"

var printedType = regexp.MustCompile(`- type: (.*)\n`)

// instanceTypes returns V8's names of all instance types that are not strings, by
// number. V8 prints the name of a map's type: the type of a map without objects is
// changed, number by number. Some releases end the process at a number without a
// type; another process then continues from the next type in the metadata.
func (m *measurement) instanceTypes() (map[uint16]string, error) {
	first, ok := m.binary.lookup("FirstNonstringType")
	if !ok {
		return nil, fmt.Errorf("no FirstNonstringType in the metadata")
	}
	known := m.binary.metadataTypes()
	starts := append(slices.Collect(maps.Keys(known)), specialAPIObject)
	slices.Sort(starts)
	names := map[uint16]string{}
	for number := uint16(first); number != 0; {
		if err := m.nameTypes(names, number); !errors.Is(err, io.ErrUnexpectedEOF) && err != nil {
			return nil, err
		} else if err == nil {
			break
		}
		last := slices.Max(append(slices.Collect(maps.Keys(names)), number))
		number = 0
		for _, next := range starts {
			if next > last {
				number = next
				break
			}
		}
	}
	for number, name := range known {
		if names[number] == "" {
			names[number] = name
		}
	}
	return names, nil
}

// nameTypes adds names from number on, until the process ends or there are no more.
func (m *measurement) nameTypes(names map[uint16]string, number uint16) error {
	p := startProbe(m.t, m.node)
	v, _, err := p.find("(() => { keep.f = function () { this.unused = 1 }; new keep.f; return keep.f })() > - initial_map:")
	if err != nil {
		return err
	}
	offset, ok := m.binary.lookup("class_Map__instance_type__")
	if !ok {
		return fmt.Errorf("no Map::instance_type in the metadata")
	}
	end := slices.Max(slices.Collect(maps.Keys(m.binary.metadataTypes()))) + beyondKnown
	for ; number < end; number++ {
		if _, err := p.memory.WriteAt(binary.LittleEndian.AppendUint16(nil, number), int64(v)-1+offset); err != nil {
			return err
		}
		text, err := p.describeAt(v)
		if err != nil {
			return err
		}
		found := printedType.FindStringSubmatch(text)
		if found == nil || strings.HasPrefix(found[1], "[") && found[1] != apiObject {
			continue
		}
		names[number] = found[1]
	}
	return nil
}

// metadataTypes returns the instance types of the metadata.
func (b *nodeBinary) metadataTypes() map[uint16]string {
	types := map[uint16]string{}
	for name, number := range b.metadata {
		if rest, ok := strings.CutPrefix(name, "type_"); ok {
			_, types[uint16(number)], _ = strings.Cut(rest, "__")
		}
	}
	return types
}

// className returns the class of an instance type: JSArray for JS_ARRAY_TYPE.
func className(constant string) string {
	if strings.HasPrefix(constant, "BIG_INT") || strings.HasPrefix(constant, "BIGINT") {
		return "BigInt"
	}
	if constant == apiObject {
		return "JSApiObject"
	}
	var name strings.Builder
	for _, word := range strings.Split(strings.TrimSuffix(constant, "_TYPE"), "_") {
		if word != "JS" && word != "" {
			word = word[:1] + strings.ToLower(word[1:])
		}
		name.WriteString(word)
	}
	return name.String()
}

const constructors = "_CONSTRUCTOR_TYPE"

// measureTypes sets the types that metadata omits.
func measureTypes(m *measurement) error {
	types := map[string]uint16{}
	known := m.binary.metadataTypes()
	for number, name := range m.types {
		_, named := known[number]
		if className(name) == "JSApiObject" {
			_, named = m.binary.lookup("APIObjectType")
		}
		if !named && !strings.HasSuffix(name, constructors) {
			types[className(name)] = number
		}
	}
	m.release.Types = types
	m.measured["Types"] = true
	return nil
}

// measureFunctionTypes sets what instance types JSFunctions have.
func measureFunctionTypes(m *measurement) error {
	if _, ok := m.binary.lookup("LastJSFunctionType"); ok {
		m.set("Functions.Types", 0)
	} else {
		count := 0
		for _, name := range m.types {
			if strings.HasSuffix(name, constructors) {
				count++
			}
		}
		m.set("Functions.Types", count)
	}
	classes := slices.Contains(slices.Collect(maps.Values(m.types)), "JS_CLASS_CONSTRUCTOR_TYPE")
	m.set("Functions.ClassConstructor", classes)
	return nil
}

func (m *measurement) hasType(name string) bool {
	return slices.Contains(slices.Collect(maps.Values(m.types)), name)
}
