package release_test

import (
	"bytes"
	"cmp"
	"fmt"
	"go/format"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"ustack/symbolize/v8/release"
)

// fileName returns the name of the file of a release.
func fileName(v release.Version) string { return fmt.Sprintf("v%d_%d.go", v.Major, v.Minor) }

// source returns the file of a release. Its comment and its Before are those of the
// file that there is: they are about other Node.js releases than the one measured.
func source(r *release.Release) ([]byte, error) {
	comment, before := "// Node.js "+r.Node+".", ""
	if old, err := os.ReadFile(fileName(r.Version)); err == nil {
		comment, before = carriedOver(string(old))
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "package release\n\n%s\nvar _ = Register(Release{\n", comment)
	fmt.Fprintf(&b, "Version: Version{Major: %d, Minor: %d},\nNode: %q,\n%s\n", r.Version.Major, r.Version.Minor, r.Node, before)
	all := reflect.ValueOf(r).Elem()
	for i := range all.NumField() {
		if group := all.Type().Field(i); group.Type.Kind() == reflect.Struct && group.Name != "Version" {
			fmt.Fprintf(&b, "%s: %s{\n", group.Name, group.Name)
			writeGroup(&b, all.Field(i))
			b.WriteString("},\n")
		}
	}
	byNumber := func(x, y string) int {
		return cmp.Or(cmp.Compare(r.Types[x], r.Types[y]), cmp.Compare(x, y))
	}
	writeMap(&b, "Types", r.Types, slices.SortedFunc(maps.Keys(r.Types), byNumber))
	writeMap(&b, "Fields", r.Fields, slices.Sorted(maps.Keys(r.Fields)))
	b.WriteString("})\n")
	return format.Source(b.Bytes())
}

// carriedOver returns the comment and the Before of a file.
func carriedOver(file string) (comment, before string) {
	_, file, _ = strings.Cut(file, "\n\n")
	comment, file, _ = strings.Cut(file, "\nvar _ =")
	const start, end = "\tBefore: []Change{\n", "\n\t},\n"
	if at := strings.Index(file, start); at >= 0 {
		before = file[at:]
		before = before[:strings.Index(before, end)+len(end)]
	}
	return comment, before
}

// writeGroup writes the fields of a struct that are not zero.
func writeGroup(b *bytes.Buffer, group reflect.Value) {
	for i := range group.NumField() {
		if f := group.Field(i); !f.IsZero() {
			fmt.Fprintf(b, "%s: %s,\n", group.Type().Field(i).Name, literal(f))
		}
	}
}

// literal returns a field in Go.
func literal(f reflect.Value) string {
	switch f.Kind() {
	case reflect.Struct:
		var fields []string
		for i := range f.NumField() {
			if !f.Field(i).IsZero() {
				fields = append(fields, f.Type().Field(i).Name+": "+literal(f.Field(i)))
			}
		}
		return f.Type().Name() + "{" + strings.Join(fields, ", ") + "}"
	case reflect.Slice:
		var texts []string
		for i := range f.Len() {
			texts = append(texts, literal(f.Index(i)))
		}
		return "[]string{" + strings.Join(texts, ", ") + "}"
	case reflect.String:
		return fmt.Sprintf("%q", f.String())
	}
	return fmt.Sprint(f)
}

func writeMap(b *bytes.Buffer, name string, numbers map[string]uint16, order []string) {
	fmt.Fprintf(b, "\n%s: map[string]uint16{\n", name)
	for _, key := range order {
		fmt.Fprintf(b, "%q: %d,\n", key, numbers[key])
	}
	b.WriteString("},\n")
}

// leaves returns the names of everything that a Release has: "Pages.Size",
// "Fields.JSArray.length", "Types".
func leaves(r *release.Release) []string {
	names := []string{"Types"}
	all := reflect.ValueOf(r).Elem()
	for i := range all.NumField() {
		if group := all.Type().Field(i); group.Type.Kind() == reflect.Struct && group.Name != "Version" {
			for j := range group.Type.NumField() {
				names = append(names, group.Name+"."+group.Type.Field(j).Name)
			}
		}
	}
	for name := range r.Fields {
		names = append(names, "Fields."+name)
	}
	slices.Sort(names)
	return names
}
