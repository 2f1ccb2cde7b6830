package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"

	"golang.org/x/tools/go/packages"
)

// releases is the one package that knows how versions of V8 differ.
const releases = module + "symbolize/v8/release"

// comparisons returns a line for each place outside releases that takes a V8
// version apart or compares it: whatever depends on the version belongs in a
// field of a release. Overlay has files that replace those on disk.
func comparisons(overlay map[string][]byte, patterns ...string) ([]string, error) {
	loaded, err := packages.Load(&packages.Config{
		Mode:    packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports,
		Overlay: overlay,
	}, patterns...)
	if err != nil {
		return nil, fmt.Errorf("load packages: %w", err)
	}
	var wrong []string
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("load packages: %w", p.Errors[0])
		}
		if p.PkgPath == releases {
			continue
		}
		for _, file := range p.Syntax {
			ast.Inspect(file, func(n ast.Node) bool {
				if at := comparison(p.TypesInfo, n); at.IsValid() {
					where := p.Fset.Position(at)
					wrong = append(wrong, fmt.Sprintf("%s:%d: versions of V8 are compared in %s only", filepath.Base(where.Filename), where.Line, releases))
				}
				return true
			})
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong), nil
}

// comparison returns where a node takes a version apart or compares it.
func comparison(info *types.Info, n ast.Node) token.Pos {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		if s := info.Selections[n]; s != nil && isVersion(s.Recv()) && n.Sel.Name != "String" {
			return n.Sel.Pos()
		}
	case *ast.BinaryExpr:
		if isVersion(info.TypeOf(n.X)) || isVersion(info.TypeOf(n.Y)) {
			return n.OpPos
		}
	case *ast.SwitchStmt:
		if n.Tag != nil && isVersion(info.TypeOf(n.Tag)) {
			return n.Tag.Pos()
		}
	}
	return token.NoPos
}

// isVersion reports whether a type is the type of V8 versions, or a pointer to
// it.
func isVersion(t types.Type) bool {
	if t == nil {
		return false
	}
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Name() == "Version" && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == releases
}
