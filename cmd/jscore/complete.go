package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"ustack/tools/jscore"
)

// A completer completes what is typed at the prompt.
type completer struct{ *session }

// Do returns the possible continuations of the line up to pos, and how many
// characters of them have been typed.
func (c *completer) Do(line []rune, pos int) ([][]rune, int) {
	typed := string(line[:pos])
	word := typed[strings.LastIndexAny(typed, blanks+"|;")+1:]
	var rest [][]rune
	if at := strings.LastIndex(word, "::"); at >= 0 {
		word = word[at+2:]
	}
	for _, candidate := range c.candidates(typed, word) {
		if end, ok := strings.CutPrefix(candidate, word); ok {
			if !strings.HasSuffix(candidate, "/") {
				end += " "
			}
			rest = append(rest, []rune(end))
		}
	}
	return rest, len([]rune(word))
}

// candidates returns the completions of word, at which typed ends.
func (c *completer) candidates(typed, word string) []string {
	before := strings.TrimSuffix(typed, word)
	call := before[strings.LastIndexAny(before, "|;")+1:]
	words := strings.Fields(call)
	if len(words) == 0 || strings.HasSuffix(before, "::") {
		return c.commands.names()
	}
	name := words[0][strings.LastIndex(words[0], ":")+1:]
	cmd, err := c.commands.lookup(name)
	switch {
	case err != nil:
		return nil
	case cmd.name == "help":
		return c.commands.names()
	case strings.HasPrefix(word, "-"):
		return cmd.flagNames()
	case words[len(words)-1] == "-c":
		return c.classes()
	case cmd.name == "memory" && len(words) == 1:
		return []string{"diff"}
	case slices.Contains([]string{"export", "diff", "memory"}, cmd.name):
		return files(word)
	}
	return nil
}

// flagNames returns the command's flags in their long forms.
func (c *command) flagNames() []string {
	var names []string
	c.flags(new(run)).VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	return names
}

// files returns the files whose names start with path; directories end in "/".
func files(path string) []string {
	found, err := filepath.Glob(path + "*") // a pattern in the path completes, too
	if err != nil {
		return nil
	}
	for i := range found {
		if info, err := os.Stat(found[i]); err == nil && info.IsDir() {
			found[i] += "/"
		}
	}
	return found
}

// classes returns the names of classes that can be typed without quotes. It
// returns none until a command has read all objects, which takes time.
func (c *completer) classes() []string {
	if c.objects == nil {
		return nil
	}
	var names []string
	for _, g := range c.objects.Census(context.Background(), jscore.CensusOptions{ByClass: true}).Groups {
		if quote(g.Class) == g.Class && !slices.Contains(names, g.Class) {
			names = append(names, g.Class)
		}
	}
	slices.Sort(names)
	return names
}
