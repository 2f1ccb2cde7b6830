package descriptors

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
)

// example has a descriptor of each kind.
func example() *List {
	return &List{Partial: true, All: []Descriptor{
		{FD: 0, Kind: File, Name: "/dev/pts/0"},
		{FD: 1, Kind: Pipe, Name: "pipe:[7]"},
		{FD: 2, Kind: File, Name: "/tmp/any\xff\n\x1b bytes"},
		{FD: 5, Kind: Socket, Socket: &Endpoint{unix.AF_INET, unix.SOCK_STREAM, Established, "127.0.0.1:80", "10.0.0.1:1234"}},
		{FD: 6, Kind: Socket, Socket: &Endpoint{unix.AF_UNIX, unix.SOCK_DGRAM, Close, "@abstract\x00\n", ""}},
		{FD: 7, Kind: Socket},
		{FD: 8},
		{FD: 1 << 30, Kind: Anonymous, Name: "[eventpoll]"},
	}}
}

func TestBinaryFormKeepsDescriptors(t *testing.T) {
	for _, want := range []*List{example(), {}} {
		got := new(List)
		err := got.UnmarshalBinary(want.Binary())
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Descriptor{})); diff != "" || err != nil {
			t.Errorf("UnmarshalBinary = %v (-want +got):\n%s", err, diff)
		}
	}
	long := &List{All: []Descriptor{{Kind: File, Name: "/" + strings.Repeat("x", 1<<20)}}}
	got := new(List)
	if err := got.UnmarshalBinary(long.Binary()); err != nil || len(got.All[0].Name) != maxName {
		t.Errorf("UnmarshalBinary = %v, and %d bytes of a name, want %d", err, len(got.All[0].Name), maxName)
	}
}

func TestDamagedBinaryFormIsRefused(t *testing.T) {
	whole := example().Binary()
	twice := &List{All: []Descriptor{{FD: 1}, {FD: 1}}}
	kind := &List{All: []Descriptor{{FD: 1, Kind: Kind(len(kinds))}}}
	address := &List{All: []Descriptor{{FD: 1, Kind: Socket, Socket: &Endpoint{Family: unix.AF_INET, Local: "nowhere"}}}}
	family := &List{All: []Descriptor{{FD: 1, Kind: Socket, Socket: &Endpoint{Family: 99}}}}
	negative := &List{All: []Descriptor{{FD: -1}}}
	for name, data := range map[string][]byte{
		"empty": nil, "cut": whole[:len(whole)-1], "rest": append(bytes.Clone(whole), 1), "twice": twice.Binary(),
		"kind": kind.Binary(), "address": address.Binary(), "family": family.Binary(), "negative": negative.Binary(),
	} {
		got := &List{Partial: true}
		if err := got.UnmarshalBinary(data); err == nil || len(got.All) > 0 || !got.Partial {
			t.Errorf("%s: UnmarshalBinary = %v, and %+v, want an error and no change", name, err, got)
		}
	}
}

func FuzzUnmarshalBinary(f *testing.F) {
	f.Add(example().Binary())
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		l := new(List)
		if l.UnmarshalBinary(data) != nil {
			return
		}
		again := new(List)
		err := again.UnmarshalBinary(l.Binary())
		if diff := cmp.Diff(l, again, cmpopts.IgnoreUnexported(Descriptor{})); diff != "" || err != nil {
			t.Errorf("a second time %v (-first +second):\n%s", err, diff)
		}
		for i, d := range l.All {
			if found, ok := l.Find(d.FD); !ok || found.FD != l.All[i].FD {
				t.Errorf("Find(%d) = %+v, %v", d.FD, found, ok)
			}
		}
	})
}
