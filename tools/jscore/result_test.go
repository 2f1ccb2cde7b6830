package jscore

import (
	"encoding/json"
	"fmt"
	"testing"
)

func TestAddressesAreHexadecimalEverywhere(t *testing.T) {
	const address Address = 0x7f00_1234_5679
	if got, want := fmt.Sprintf("%v %s %16v", address, address, address), "7f0012345679 7f0012345679     7f0012345679"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
	got, err := json.Marshal(struct {
		At  Address             `json:"at"`
		Key map[Address]Address `json:"key"`
	}{address, map[Address]Address{1: 16}})
	if want := `{"at":"7f0012345679","key":{"1":"10"}}`; err != nil || string(got) != want {
		t.Errorf("json = %s, %v, want %s", got, err, want)
	}
}
