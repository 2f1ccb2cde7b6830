package process

import (
	"strings"
	"testing"
)

func TestTitleNamesProgramAndScript(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"/usr/bin/node\x00server.js\x00--port\x0080\x00", "node 42 server.js"},
		{"node\x00--max-old-space-size=99\x00-r\x00./hook.js\x00/srv/app/main.mjs\x00", "node 42 main.mjs"},
		{"node\x00/srv/app/dist/index.js\x00", "node 42 dist/index.js"},
		{"node\x00/index.js\x00", "node 42 index.js"},
		{"node\x00-e\x00while (1);\x00", "node 42 -e"},
		{"node\x00", "node 42"},
		{"web worker 3\x00\x00\x00", "web worker 3 42"},
		{"", "comm 42"},
		{"node\x00" + strings.Repeat("x", 1000) + "\x00", "node 42 " + strings.Repeat("x", maxTitle)},
	} {
		if got := title("42", "comm", tt.args); got != tt.want {
			t.Errorf("title of %q = %q, want %q", tt.args, got, tt.want)
		}
	}
}
