package descriptors

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// The binary form, little endian: a word of flags, and for each descriptor a row and the bytes of
// its name, of the local and of the remote end.
const partialFlag = 1 << 0

type row struct {
	FD                  int32
	Kind                Kind
	Family, Type        uint8 // of a socket; 0 if it is not known
	State               State
	Name, Local, Remote uint16 // bytes
}

// Binary returns the list's binary form, which UnmarshalBinary reads.
func (l *List) Binary() []byte {
	flags := uint32(0)
	if l.Partial {
		flags |= partialFlag
	}
	b := binary.LittleEndian.AppendUint32(nil, flags)
	for _, d := range l.All {
		var e Endpoint
		if d.Socket != nil {
			e = *d.Socket
		}
		r := row{FD: int32(d.FD), Kind: d.Kind, Family: e.Family, Type: e.Type, State: e.State}
		names := [...]string{bound(d.Name), bound(e.Local), bound(e.Remote)}
		for i, to := range []*uint16{&r.Name, &r.Local, &r.Remote} {
			*to = uint16(len(names[i]))
		}
		b, _ = binary.Append(b, binary.LittleEndian, r) // the size of a row is fixed
		b = append(append(append(b, names[0]...), names[1]...), names[2]...)
	}
	return b
}

func bound(name string) string { return name[:min(len(name), maxName)] }

var errDamaged = errors.New("damaged list of descriptors")

// UnmarshalBinary reads the binary form. What it reads is bounded as what Read does, and nothing else
// about it is trusted.
func (l *List) UnmarshalBinary(data []byte) error {
	const word = 4
	if len(data) < word {
		return errDamaged
	}
	read := List{Partial: binary.LittleEndian.Uint32(data)&partialFlag != 0}
	data = data[word:]
	last := -1
	for len(data) > 0 {
		var r row
		n, err := binary.Decode(data, binary.LittleEndian, &r)
		size := int(r.Name) + int(r.Local) + int(r.Remote)
		if err != nil || max(r.Name, r.Local, r.Remote) > maxName || len(data)-n < size || int(r.FD) <= last || len(read.All) == maxDescriptors {
			return errDamaged
		}
		texts := string(data[n : n+size])
		d := Descriptor{FD: int(r.FD), Kind: r.Kind, Name: texts[:r.Name]}
		if r.Kind >= Kind(len(kinds)) {
			return errDamaged
		}
		if r.Kind == Socket && r.Family != 0 {
			d.Socket = &Endpoint{r.Family, r.Type, r.State, texts[r.Name : int(r.Name)+int(r.Local)], texts[int(r.Name)+int(r.Local):]}
			if !d.Socket.valid() {
				return errDamaged
			}
		}
		read.All = append(read.All, d)
		last, data = int(r.FD), data[n+size:]
	}
	*l = read
	return nil
}

// valid reports whether the ends are such as the family has.
func (e *Endpoint) valid() bool {
	switch e.Family {
	case unix.AF_UNIX:
		return e.Remote == ""
	case unix.AF_INET, unix.AF_INET6:
		return isAddress(e.Local) && isAddress(e.Remote)
	}
	return false
}

func isAddress(text string) bool {
	a, err := netip.ParseAddrPort(text)
	return text == "" || err == nil && a.Addr().Zone() == ""
}
