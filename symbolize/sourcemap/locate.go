package sourcemap

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
)

const marker = "sourceMappingURL="

// URL returns the URL in the last comment of a script's text that names its map,
// empty if there is none.
func URL(text string) string {
	for {
		at := strings.LastIndex(text, marker)
		if at < 0 {
			return ""
		}
		before := text[:at]
		if line := strings.TrimRight(before, " \t"); len(line) < len(before) && (strings.HasSuffix(line, "//#") || strings.HasSuffix(line, "//@")) {
			value := text[at+len(marker):]
			if end := strings.IndexAny(value, "\r\n\u2028\u2029"); end >= 0 {
				value = value[:end]
			}
			if value = strings.TrimSpace(value); !strings.ContainsAny(value, " \t\"'") {
				return value
			}
		}
		text = before
	}
}

// IsInline reports whether a URL is itself the map: a data URL.
func IsInline(mapURL string) bool {
	return len(mapURL) >= len(dataScheme) && strings.EqualFold(mapURL[:len(dataScheme)], dataScheme)
}

const dataScheme = "data:"

// Inline returns the map that is in a data URL, in base64 or as escaped text.
func Inline(mapURL string) ([]byte, error) {
	if len(mapURL) > MaxBytes/3*4 {
		return nil, fmt.Errorf("the source map has more than %d bytes", MaxBytes)
	}
	kind, text, ok := strings.Cut(mapURL[len(dataScheme):], ",")
	if !ok {
		return nil, errors.New("read a data URL: it has no comma")
	}
	if strings.ContainsRune(text, '%') {
		unescaped, err := url.PathUnescape(text)
		if err != nil {
			return nil, fmt.Errorf("read a data URL: %w", err)
		}
		text = unescaped
	}
	if !strings.HasSuffix(strings.ToLower(kind), ";base64") {
		return []byte(text), nil
	}
	data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return nil, fmt.Errorf("read a data URL: %w", err)
	}
	return data, nil
}

// ErrRemote means that a map is where it is not read from, such as a web server.
var ErrRemote = errors.New("only files and data URLs are read")

const maxPath = 4 << 10 // bytes of a path; the kernel takes no longer ones

// File returns the absolute path of the map that a script names by a URL. The script's
// name is a path or a file URL.
func File(script, mapURL string) (string, error) {
	switch scheme, ok := schemeOf(mapURL); {
	case ok && scheme != "file":
		return "", ErrRemote
	case !ok:
		base, ok := Path(script)
		if !ok {
			return "", errors.New("it is relative to a script that is no file")
		}
		if !path.IsAbs(mapURL) {
			mapURL = path.Dir((&url.URL{Path: base}).EscapedPath()) + "/" + mapURL
		}
		mapURL = "file://" + mapURL
	}
	file, ok := Path(mapURL)
	if !ok || len(file) > maxPath {
		return "", errors.New("its name is no path")
	}
	return path.Clean(file), nil
}

// Path returns the path of a script's file, if its name is that or a file URL.
func Path(name string) (file string, ok bool) {
	if after, ok := strings.CutPrefix(name, "file://"); ok {
		unescaped, err := url.PathUnescape(withoutQuery(after))
		if err != nil {
			return "", false
		}
		name = unescaped
	}
	return name, path.IsAbs(name) && !strings.ContainsRune(name, 0)
}

// withoutQuery returns a URL without what distinguishes two imports of one file.
func withoutQuery(text string) string {
	text, _, _ = strings.Cut(text, "?")
	text, _, _ = strings.Cut(text, "#")
	return text
}

// resolve returns the path or URL of a source below the root, both as a map at base, a
// path or URL, names them.
func resolve(base, root, source string) string {
	if source == "" {
		return ""
	}
	if root != "" && !isAbsolute(source) {
		source = strings.TrimSuffix(root, "/") + "/" + source
	}
	if isAbsolute(source) {
		server, file := divide(source)
		if !path.IsAbs(file) {
			return source
		}
		return server + path.Clean(file)
	}
	server, file := divide(base)
	if !path.IsAbs(file) {
		return source
	}
	if server != "" {
		file = withoutQuery(file)
	}
	return server + path.Join(path.Dir(file), source)
}

// isAbsolute reports whether a name is a URL or an absolute path.
func isAbsolute(name string) bool {
	_, ok := schemeOf(name)
	return ok || path.IsAbs(name)
}

// divide returns the scheme and host of a URL, "webpack://host", and its path. A path has
// no server.
func divide(name string) (server, file string) {
	scheme, ok := schemeOf(name)
	if !ok {
		return "", name
	}
	rest, ok := strings.CutPrefix(name[len(scheme)+1:], "//")
	if !ok {
		return "", name
	}
	host, _, _ := strings.Cut(rest, "/")
	return name[:len(name)-len(rest)+len(host)], rest[len(host):]
}

// schemeOf returns the scheme of a URL in lower case.
func schemeOf(name string) (scheme string, ok bool) {
	scheme, _, ok = strings.Cut(name, ":")
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("+-.", r)
	}
	return strings.ToLower(scheme), ok && scheme != "" && !strings.ContainsFunc(scheme, other)
}
