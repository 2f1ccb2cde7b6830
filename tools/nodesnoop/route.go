package nodesnoop

import "strings"

// Path returns a request's path: its target without the query, and without the origin of
// a target that has one, as proxies get.
func Path(target string) string {
	if rest, ok := strings.CutPrefix(target, "http://"); ok {
		target = afterHost(rest)
	} else if rest, ok := strings.CutPrefix(target, "https://"); ok {
		target = afterHost(rest)
	}
	path, _, _ := strings.Cut(target, "?")
	return path
}

// afterHost returns what follows the host of a URL without its scheme.
func afterHost(rest string) string {
	if at := strings.IndexAny(rest, "/?"); at >= 0 && rest[at] == '/' {
		return rest[at:]
	}
	return "/"
}

// Route returns a path in which segments that name one thing of many are replaced: :num
// for a number, :uuid for a UUID, :hash for 8 or more hexadecimal digits of which one is
// a decimal, :id for 20 or more characters that contain a digit.
func Route(path string) string {
	var b strings.Builder
	for i, segment := range strings.Split(path, "/") {
		if i > 0 {
			b.WriteByte('/')
		}
		b.WriteString(folded(segment))
	}
	return b.String()
}

// Lengths from which a segment is taken for a name that a program made.
const (
	leastHash = 8
	leastID   = 20
	uuidBytes = 36
)

func folded(segment string) string {
	digits, hex, dashes := 0, 0, 0
	for _, c := range []byte(segment) {
		switch {
		case c >= '0' && c <= '9':
			digits++
			hex++
		case c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
			hex++
		case c == '-':
			dashes++
		}
	}
	switch n := len(segment); {
	case digits == 0:
		return segment
	case digits == n:
		return ":num"
	case n == uuidBytes && dashes == 4 && hex == n-dashes:
		return ":uuid"
	case n >= leastHash && hex == n:
		return ":hash"
	case n >= leastID:
		return ":id"
	}
	return segment
}
