package read

import (
	"strconv"
	"strings"
	"time"

	"ustack/symbolize"
	"ustack/tools/profile"
	"ustack/tools/profile/internal/lazyregexp"
)

var (
	dtraceTick = lazyregexp.New(`^\s*\d+\s+\d+\s+:tick-(\d{1,6})s\s*$`)
	// dtraceProbe matches the line of a probe that has fired.
	dtraceProbe = lazyregexp.New(`^\s*\d+\s+\d+\s+\S*:\S*\s*$`)
	dtraceKey   = lazyregexp.New(`^ {2}\s*(?:(\d{1,9})(?:\s+|$))?(\S.*)?$`)
	dtracePlace = lazyregexp.New(`^(.*?) at (.+?)(?: (?:line|position) (\d{1,9}))?$`)
	hexOffset   = lazyregexp.New(`^(.+)\+0x([\da-f]{1,16})$`)
)

// dtraceIndent is the least number of blanks before a frame; keys of an aggregation,
// such as execname, have fewer.
const dtraceIndent = 8

// readDTrace reads the stacks of an aggregation, such as @[jstack()] = count(), each with
// its value behind it. Keys before a stack are a process's number and a thread's name.
func readDTrace(l *lines, b *builder) error {
	frames := map[string]symbolize.Frame{}
	var stack profile.Stack
	for l.next() {
		text := strings.TrimSpace(l.text)
		indent := len(l.text) - len(strings.TrimLeft(l.text, " \t"))
		if m := dtraceTick.FindStringSubmatch(l.text); m != nil {
			b.profile.Duration = time.Duration(number(m[1], 10)) * time.Second
			continue
		}
		switch {
		case text == "", dtraceHeading.MatchString(l.text), dtraceProbe.MatchString(l.text), strings.HasPrefix(text, "dtrace:"):
			continue
		case len(stack.Frames) == 0 && indent < dtraceIndent:
			m := dtraceKey.FindStringSubmatch(l.text)
			if m == nil {
				return l.errorf("neither a frame nor a value: %s", quote(text))
			}
			stack.PID, stack.Thread = int(number(m[1], 10)), m[2]
			continue
		}
		if value, err := strconv.ParseUint(text, 10, 63); err == nil {
			stack.Value = value
			if err := b.add(stack); err != nil {
				return l.errorf("%w", err)
			}
			stack = profile.Stack{}
			continue
		}
		f, ok := frames[text]
		if !ok && len(frames) < maxFrames {
			f = dtraceFrame(text)
			frames[text] = f
		}
		if len(stack.Frames) > maxDepth {
			continue // add cuts it
		}
		stack.Frames = append(stack.Frames, f)
	}
	if err := l.err(); err != nil {
		return err
	}
	if len(stack.Frames) > 0 {
		return l.errorf("the file ends within a stack")
	}
	return nil
}

// dtraceFrame reads a frame as DTrace prints it: module`name+0x1c, module`0x7a1c,
// name at file line 12, << entry >>.
func dtraceFrame(text string) symbolize.Frame {
	if strings.HasPrefix(text, "<< ") {
		return symbolize.Frame{Kind: symbolize.Typed, Name: text}
	}
	module, name, ok := strings.Cut(text, "`")
	if ok && module != "" && !strings.ContainsAny(module, " (<") {
		f := dtraceModule(module)
		if m := hexOffset.FindStringSubmatch(name); m != nil {
			name, f.Offset = m[1], number(m[2], 16)
		}
		if m := address.FindStringSubmatch(name); m != nil {
			name, f.Offset = "", number(m[1], 16)
		}
		f.Name = name
		if builtin, ok := strings.CutPrefix(name, builtinPrefix); ok {
			f = builtinFrame(builtin, f.Module)
		}
		return f
	}
	if m := dtracePlace.FindStringSubmatch(text); m != nil && !strings.HasPrefix(text, symbolize.RegExpPrefix) {
		parts := []string{"", strings.ReplaceAll(m[1], ".[anonymous]", ".<anonymous>"), m[2], m[3], ""}
		if strings.Contains(text, " position ") && m[3] != "" {
			parts[3] = "" // it is an offset in the file
		}
		if m[2] == "[no file]" {
			parts[2] = ""
		}
		return script(parts)
	}
	return named(text)
}

// dtraceModule returns a frame of a module, by the name that DTrace has for it.
func dtraceModule(name string) symbolize.Frame {
	switch name {
	case "kernel", "unix", "genunix", "vmlinux":
		return symbolize.Frame{Kind: symbolize.Kernel, Module: kernelModule}
	case "vdso":
		return symbolize.Frame{Module: "[vdso]"}
	}
	return symbolize.Frame{Module: name}
}
