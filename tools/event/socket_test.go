package event

import (
	"strings"
	"testing"
)

func TestSockaddrOfAnyBytes(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"\x02":                             "",
		"\x02\x00\x1f\x90\x0a\x00\x00":     "",
		"\x02\x00\x1f\x90\x0a\x00\x00\x07": "10.0.0.7:8080",
		"\x0a\x00\x00\x50":                 "",
		"\x0a\x00\x00\x50\x00\x00\x00\x00" + strings.Repeat("\x00", 15) + "\x01": "[::1]:80",
		"\x01\x00/run/x\x00junk": "/run/x",
		"\x01\x00\x00name":       "@name",
		"\x01\x00":               "",
		"\x63\x00whatever":       "",
	} {
		if got := Sockaddr([]byte(text)); got != want {
			t.Errorf("Sockaddr(%q) = %q, want %q", text, got, want)
		}
	}
}
