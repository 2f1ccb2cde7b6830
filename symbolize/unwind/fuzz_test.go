package unwind_test

import (
	"bytes"
	"debug/elf"
	"math"
	"os"
	"testing"

	"ustack/symbolize/unwind"
	"ustack/testdata/nodetest"
)

// exercise uses everything that depends on the file's contents.
func exercise(t testing.TB, image []byte) {
	t.Helper()
	if rules, err := unwind.ReadRules(bytes.NewReader(image)); err == nil {
		checkOrder(t, rules)
	}
	table, err := unwind.New(bytes.NewReader(image))
	if err != nil {
		return
	}
	for address := uint64(0); address < 1<<12; address += 61 {
		c := unwind.Cursor{PC: address, Known: math.MaxUint32}
		_, _ = table.Caller(c, address, func(at uint64) (uint64, error) { return at, nil })
	}
}

// checkOrder checks that rows and spans can be searched.
func checkOrder(t testing.TB, rules *unwind.Rules) {
	t.Helper()
	for i := 1; i < len(rules.Rows); i++ {
		if rules.Rows[i-1].Start >= rules.Rows[i].Start {
			t.Errorf("row %+v follows %+v", rules.Rows[i], rules.Rows[i-1])
		}
	}
	for i := 1; i < len(rules.Frameless); i++ {
		if rules.Frameless[i-1].End >= rules.Frameless[i].Start {
			t.Errorf("span %#x follows %#x", rules.Frameless[i], rules.Frameless[i-1])
		}
	}
}

func TestHostileTables(t *testing.T) {
	for name, image := range nodetest.HostileELFs(t) {
		t.Run(name, func(t *testing.T) { exercise(t, image) })
	}
}

func FuzzNew(f *testing.F) {
	for _, image := range nodetest.HostileELFs(f) {
		f.Add(image)
	}
	if real, err := elf.Open("/bin/true"); err == nil {
		if section := real.Section(".eh_frame"); section != nil {
			data, err := section.Data()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(nodetest.ELF(f, nodetest.Section{Name: ".eh_frame", Type: elf.SHT_PROGBITS, Data: data}))
		}
		real.Close()
	} else if !os.IsNotExist(err) {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, image []byte) { exercise(t, image) })
}
