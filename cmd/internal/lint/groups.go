package main

import (
	"maps"
	"slices"
	"strings"
)

// allowed reports whether the package importer may import another package of
// the module. A tool may import its own internal packages.
func allowed(importer, imported string) bool {
	if known, ok := below[strings.TrimPrefix(importer, module)]; ok {
		return slices.Contains(known, strings.TrimPrefix(imported, module))
	}
	from, to := group(importer), group(imported)
	if from == "tool" && to == "tool" {
		return tool(importer) == tool(imported)
	}
	return slices.Contains(mayImport[from], to)
}

// group returns the group of a package, which is its directory if it is in no
// known one. Packages that only tests of commands import are a separate group.
func group(path string) string {
	if path == clitest {
		return "clitest"
	}
	folder, _, _ := strings.Cut(strings.TrimPrefix(path, module), "/")
	if folder != "tools" {
		return folder
	}
	if slices.Contains(tools, tool(path)) {
		return "tool"
	}
	return "library"
}

// tool returns jsprof for ustack/tools/jsprof/internal/x.
func tool(path string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, module+"tools/"), "/")
	return name
}

func sorted(packages map[string][]string) []string {
	return slices.Sorted(maps.Keys(packages))
}
