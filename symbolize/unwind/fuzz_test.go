package unwind_test

import (
	"bytes"
	"debug/elf"
	"os"
	"testing"

	"ustack/symbolize/unwind"
	"ustack/testdata/nodetest"
)

// exercise uses everything that depends on the file's contents.
func exercise(image []byte) {
	table, err := unwind.New(bytes.NewReader(image))
	if err != nil {
		return
	}
	for address := uint64(0); address < 1<<12; address += 61 {
		c := unwind.Cursor{PC: address, Known: 1<<unwind.RegisterCount - 1}
		_, _ = table.Caller(c, address, func(at uint64) (uint64, error) { return at, nil })
	}
}

func TestHostileTables(t *testing.T) {
	for name, image := range nodetest.HostileELFs(t) {
		t.Run(name, func(*testing.T) { exercise(image) })
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
	f.Fuzz(func(_ *testing.T, image []byte) { exercise(image) })
}
