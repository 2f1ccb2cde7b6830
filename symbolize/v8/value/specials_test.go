package value

import (
	"math"
	"testing"
)

func TestElementsOfTypedArrays(t *testing.T) {
	bytes := []byte{0xff, 0xfe, 0x7f, 0x80, 0, 0, 0xf0, 0xbf}
	for kind, want := range map[string]float64{
		"Int8": -1, "Uint8": 255, "Uint8Clamped": 255,
		"Int16": -257, "Uint16": 0xfeff, "Int32": -2139095297, "Uint32": 0x807ffeff,
		"Float32": float64(math.Float32frombits(0x807ffeff)), "Float64": math.Float64frombits(0xbff00000807ffeff),
	} {
		m := elementReaders[kind](bytes)
		if !m.slot.IsNumber || m.slot.Number != want {
			t.Errorf("%s = %+v, want %v", kind, m.slot, want)
		}
	}
	for kind, want := range map[string]string{"BigInt64": "-4616189615898886401", "BigUint64": "13830554457810665215"} {
		if m := elementReaders[kind](bytes); m.slot.IsNumber || m.slot.BigInt != want {
			t.Errorf("%s = %+v, want %s", kind, m.slot, want)
		}
	}
	if len(elementReaders) != 12 {
		t.Errorf("types of arrays = %d, want 12", len(elementReaders))
	}
}

func TestHalfPrecision(t *testing.T) {
	for bits, want := range map[uint16]float64{
		0: 0, 0x3c00: 1, 0xbc00: -1, 0x3555: 0.333251953125, 0x7bff: 65504, 0xfbff: -65504,
		0x0001: math.Ldexp(1, -24), 0x03ff: math.Ldexp(1023, -24), 0x0400: math.Ldexp(1, -14),
		0x7c00: math.Inf(1), 0xfc00: math.Inf(-1),
	} {
		if got := half(bits); got != want {
			t.Errorf("%#x = %v, want %v", bits, got, want)
		}
	}
	if got := half(0x8000); got != 0 || !math.Signbit(got) {
		t.Errorf("0x8000 = %v, want -0", got)
	}
	if got := half(0x7e00); !math.IsNaN(got) {
		t.Errorf("0x7e00 = %v, want NaN", got)
	}
}

func TestMembersAreBounded(t *testing.T) {
	var c contents
	c.members = make([]member, maxMembers-1)
	for range 5 {
		c.addNumber("n", 1)
	}
	if len(c.members) != maxMembers || c.more != 4 {
		t.Errorf("members = %d and %d more, want %d and 4", len(c.members), c.more, maxMembers)
	}
}

func TestOnlyValuesHaveMembers(t *testing.T) {
	for _, s := range []Slot{{Number: 1, IsNumber: true}, {Text: "abc", IsText: true}, {BigInt: "12"}, {Value: 7 << 32}} {
		if got, err := Lookup(nil, s, "length"); err == nil {
			t.Errorf("length of %+v = %+v, want an error", s, got)
		}
		if got, err := Lookup(nil, s, ""); err != nil || got != s {
			t.Errorf("the empty path of %+v leads to %+v, %v", s, got, err)
		}
	}
}

func TestSlotsWithoutObjectsAreDescribed(t *testing.T) {
	for _, tt := range []struct {
		slot Slot
		want Node
	}{
		{Slot{Number: -0.5, IsNumber: true}, Node{Type: "number", Text: "-0.5"}},
		{Slot{Value: 42 << 32}, Node{Type: "number", Text: "42"}},
		{Slot{BigInt: "-123"}, Node{Type: "bigint", Text: "-123n"}},
		{Slot{Text: "\U0001f600", IsText: true}, Node{Type: "string", Text: "\U0001f600", Length: 2}},
	} {
		got := Describe(nil, tt.slot, Options{})
		if got.Type != tt.want.Type || got.Text != tt.want.Text || got.Length != tt.want.Length || got.Address != 0 {
			t.Errorf("%+v = %+v, want %+v", tt.slot, got, tt.want)
		}
	}
}
