package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWordsAreOneCommandOrSeveral(t *testing.T) {
	for words, want := range map[string]string{ // parted by bars
		"":                                     "",
		"status":                               "status",
		"status|jsstack":                       "status|jsstack",
		"status|jsstack -v|timers":             "status|jsstack -v|timers",
		"help|findjsobjects":                   "help findjsobjects",
		"walk|jsframe":                         "walk jsframe",
		"jsstack|-v|-n|3":                      "jsstack -v -n 3",
		"jsprint|1f3c9|status":                 "jsprint 1f3c9 status",
		"jsprint 1f3c9|status":                 "jsprint 1f3c9|status",
		"findjsobjects -c Server|handles":      "findjsobjects -c Server|handles",
		"findjsobjects|-c|Server":              "findjsobjects -c Server",
		"strings|handles":                      "strings handles",
		"status; timers|handles":               "status; timers|handles",
		"jsstack -v|nothing|handles":           "jsstack -v|nothing|handles",
		"jsstack -q|handles":                   "jsstack -q|handles",
		"nothing|handles":                      "nothing handles",
		"status|nothing":                       "status nothing",
		"findjsobjects --help|status":          "findjsobjects --help|status",
		"findjsobjects -c Server ! wc|jsstack": "findjsobjects -c Server ! wc|jsstack",
	} {
		var given []string
		if words != "" {
			given = strings.Split(words, "|")
		}
		if diff := cmp.Diff(want, strings.Join(commands().lines(given), "|")); diff != "" {
			t.Errorf("lines of %s (-want +got):\n%s", words, diff)
		}
	}
}
