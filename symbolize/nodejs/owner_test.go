package nodejs_test

import (
	"fmt"
	"testing"

	"ustack/symbolize/nodejs"
	"ustack/testdata/nodetest/calls"
	"ustack/tools/jscore"
)

// requestProgram serves HTTP over TCP and a Unix socket, and has a request to itself under way.
const requestProgram = `const cp = require('child_process'), http = require('http'), net = require('net'), path = require('path');
const fd = (s) => s._handle.fd;
const local = net.createServer().listen(path.join(__dirname, 'socket'));
const child = cp.spawn(process.execPath, ['-e', 'process.stdin.resume()'], { stdio: ['pipe', 'ignore', 'ignore'] });
class Shop extends http.Server {}
const shop = new Shop((request) => {
  const at = (s) => ({ fd: fd(s), local: s.localAddress + ':' + s.localPort, remote: s.remoteAddress + ':' + s.remotePort });
  console.log('ready ' + JSON.stringify({ shop: fd(shop), local: fd(local), port: shop.address().port, path: local.address(), there: at(request.socket), here: at(asked.socket) }));
});
let asked;
shop.listen(0, '127.0.0.1', () => {
  asked = http.request({ port: shop.address().port, host: 'localhost', family: 4, method: 'PUT', path: '/find?x=1' });
  asked.on('error', () => {});
  asked.end('body');
});`

// TestHandlesHaveOwners compares the owners and the addresses of sockets with what the program
// knows.
func TestHandlesHaveOwners(t *testing.T) {
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			target := calls.StartSource(t, version, requestProgram)
			type end struct {
				FD            int
				Local, Remote string
			}
			var facts struct {
				Shop, Local, Port int
				Path              string
				There, Here       end
			}
			target.Facts(&facts)
			d, g := dumped(t, target.PID)
			handles, err := d.Handles(g)
			if err != nil {
				t.Fatal(err)
			}
			of := func(fd int, class, role string) jscore.NodeObject {
				for _, o := range handles.Objects {
					if o.FD != nil && *o.FD == fd {
						if o.Owner == nil || o.Owner.Class != class || o.Owner.Role != role || o.Socket == nil {
							t.Fatalf("handle = %+v of %+v, want a socket of a %s that %s", o, o.Owner, class, role)
						}
						return o
					}
				}
				t.Fatalf("handles = %+v, want one of descriptor %d", handles.Objects, fd)
				return jscore.NodeObject{}
			}
			shop := of(facts.Shop, "Shop", nodejs.Listens)
			if got, want := shop.Socket.String(), fmt.Sprintf("tcp 127.0.0.1:%d, LISTEN", facts.Port); got != want {
				t.Errorf("server's socket = %s, want %s", got, want)
			}
			if got, want := of(facts.Local, "Server", nodejs.Listens).Socket.String(), "unix "+facts.Path+", LISTEN"; got != want {
				t.Errorf("local server's socket = %s, want %s", got, want)
			}
			for _, tt := range []struct {
				end
				role, message string
			}{{facts.There, nodejs.Accepted, "ServerResponse"}, {facts.Here, nodejs.Connects, "ClientRequest"}} {
				o := of(tt.FD, "Socket", tt.role)
				if got, want := o.Socket.String(), "tcp "+tt.Local+" → "+tt.Remote+", ESTABLISHED"; got != want {
					t.Errorf("socket that %s = %s, want %s", tt.role, got, want)
				}
				if o.Owner.HTTP == nil || o.Owner.HTTP.Class != tt.message || o.Owner.Request != "PUT /find?x=1" {
					t.Errorf("request of a socket that %s = %+v %q, want PUT /find?x=1 of a %s", tt.role, o.Owner.HTTP, o.Owner.Request, tt.message)
				}
				if tt.role == nodejs.Accepted && (o.Owner.Server == nil || o.Owner.Server.Address != shop.Owner.Address) {
					t.Errorf("server of the socket = %+v, want %v", o.Owner.Server, shop.Owner.Address)
				}
				if tt.role == nodejs.Connects && o.Owner.Host != "localhost" {
					t.Errorf("host of the socket = %q, want localhost", o.Owner.Host)
				}
			}
			process := ofClass(wrapsOf(handles), "Process")
			if len(process) != 1 || process[0].Owner == nil || process[0].Owner.Class != "ChildProcess" {
				t.Errorf("handles of processes = %+v, want one of a ChildProcess", process)
			}
		})
	}
}

func wrapsOf(l *jscore.NodeObjects) []nodejs.Wrap {
	var wraps []nodejs.Wrap
	for _, o := range l.Objects {
		wraps = append(wraps, o.Wrap)
	}
	return wraps
}
