package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"ustack/tools/sourcemaps"
)

func TestSourceMapFlags(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want sourcemaps.Options
		err  bool
	}{
		{nil, sourcemaps.Options{}, false},
		{[]string{"--source-maps"}, sourcemaps.Options{}, false},
		{[]string{"--no-source-maps"}, sourcemaps.Options{Off: true}, false},
		{[]string{"--source-maps=false"}, sourcemaps.Options{Off: true}, false},
		{[]string{"--no-source-maps", "--source-maps"}, sourcemaps.Options{}, false}, // the last one counts
		{[]string{"--maps", folder}, sourcemaps.Options{Folder: folder}, false},
		{[]string{"--maps", file}, sourcemaps.Options{}, true},
		{[]string{"--maps", filepath.Join(folder, "none")}, sourcemaps.Options{}, true},
		{[]string{"--source-maps=perhaps"}, sourcemaps.Options{Off: true}, true},
	} {
		var maps SourceMaps
		cmd := &cobra.Command{Run: func(*cobra.Command, []string) {}, SilenceErrors: true, SilenceUsage: true}
		maps.Register(cmd)
		cmd.SetArgs(append([]string{}, tt.args...))
		if err := cmd.Execute(); (err != nil) != tt.err || maps.Options != tt.want {
			t.Errorf("%v: %+v, %v, want %+v", tt.args, maps.Options, err, tt.want)
		}
	}
}
