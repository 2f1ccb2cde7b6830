package sourcemaps

import (
	"errors"
	"fmt"
	"os"

	"ustack/symbolize/sourcemap"
)

// ErrNotReadable means that a user may not read a file.
var ErrNotReadable = errors.New("the process's user may not read it")

// Text reads the file of a source that a map names, below a root directory. The map, and
// so the path, is the program's choice: what its user, by number, may not read is not shown.
func (f *Finder) Text(root *os.File, source string, user int) (string, error) {
	file, ok := sourcemap.Path(source)
	switch {
	case !ok:
		return "", errors.New("the source map does not have its text, and its name is no path")
	case root == nil:
		return "", fmt.Errorf("%s: %w", file, ErrNotRead)
	}
	data, err := f.text(root, file, user)
	if err != nil {
		return "", fmt.Errorf("the source map does not have its text: %w", err)
	}
	return string(data), nil
}

func (f *Finder) text(root *os.File, name string, user int) ([]byte, error) {
	file, err := f.files.Below(root, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if !file.ReadableBy(user) {
		return nil, fmt.Errorf("read %s: %w", name, ErrNotReadable)
	}
	return f.readFile(file)
}
