package nodetest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// loggers are npm's packages that log or have probes, in versions that run on all of Versions.
var loggers = []string{"bunyan@2.0.5", "restify@8.6.1", "pino@8.21.0", "winston@3.19.0"}

// Loggers returns a folder whose node_modules has npm's bunyan, pino, winston and restify, and
// npm/dtrace-provider in place of the package of that name. Its binding is compiled with the
// headers of node.
func Loggers(t testing.TB, node string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), fetchLimit)
	defer cancel()
	_, file, _, _ := runtime.Caller(0)
	source := filepath.Join(filepath.Dir(file), "..", "..", "npm", "dtrace-provider")
	text, err := readAll(source, providerFiles)
	if err != nil {
		t.Fatal(err)
	}
	key, err := digest(t.TempDir(), append(text, loggers...))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := cached("loggers-"+key, func(temp string) error {
		if err := npmInstall(ctx, temp, loggers...); err != nil {
			return err
		}
		return buildProvider(ctx, source, filepath.Join(temp, "node_modules", "dtrace-provider"), filepath.Join(filepath.Dir(node), "..", "include", "node"))
	})
	if err != nil {
		t.Fatalf("install packages that log: %v (is npm's registry reachable?)", err)
	}
	return dir
}

// providerFiles are the files of npm/dtrace-provider that its package is made of.
var providerFiles = []string{"package.json", "dtrace-provider.js", "elf.js", "binding.c", "Makefile"}

func readAll(dir string, names []string) (texts []string, err error) {
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(text))
	}
	return texts, nil
}

// buildProvider replaces the package in the folder by that of source.
func buildProvider(ctx context.Context, source, folder, headers string) error {
	texts, err := readAll(source, providerFiles)
	errs := []error{err, os.RemoveAll(folder), os.Mkdir(folder, 0o755)}
	for i, text := range texts {
		errs = append(errs, os.WriteFile(filepath.Join(folder, providerFiles[i]), []byte(text), 0o644))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return run(exec.CommandContext(ctx, "make", "-C", folder, "HEADERS="+headers))
}
