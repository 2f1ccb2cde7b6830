package nodejs_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/nodejs"
	"ustack/testdata/nodetest/calls"
)

// listenersProgram has emitters of one class with listeners, and one that is garbage.
const listenersProgram = `const { EventEmitter } = require('events');
class Hub extends EventEmitter {}
const listen = (hub, event, count) => {
  hub.setMaxListeners(0);
  for (let i = 0; i < count; i++) hub.on(event, () => i);
  return hub;
};
globalThis.kept = [listen(listen(new Hub(), 'many', 37), 'some', 13), listen(new Hub(), 'more', 41), listen(new Hub(), 'one', 1)];
(() => { listen(new Hub(), 'dropped', 43); })();
console.log('ready');
setInterval(() => {}, 60e3);`

func TestListenersAreCounted(t *testing.T) {
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			d, g := dumped(t, calls.StartSource(t, version, listenersProgram).PID)
			type event struct {
				Name  string
				Count int
			}
			for least, want := range map[int][]event{
				13: {{"more", 41}, {"many", 37}, {"some", 13}},
				38: {{"more", 41}},
				42: nil,
			} {
				var got []event
				for _, l := range nodejs.EventListeners(t.Context(), g.Graph, d.Heap(), least) {
					if l.Emitter.Class == "Hub" {
						got = append(got, event{l.Event, l.Count})
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("events with %d listeners or more (-want +got):\n%s", least, diff)
				}
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if got := nodejs.EventListeners(ended, g.Graph, d.Heap(), 1); len(got) > 0 {
				t.Errorf("once its context is done: %+v, want nothing", got)
			}
		})
	}
}
