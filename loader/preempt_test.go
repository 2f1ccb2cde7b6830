package loader

import "testing"

func TestPreemption(t *testing.T) {
	for _, test := range []struct {
		name, version, modes string
		want                 bool
	}{
		{"never", "#214-Ubuntu SMP Tue Sep 1 10:00:00 UTC 2026", "", false},
		{"always", "#1 SMP PREEMPT Debian 5.10.1-1", "", true},
		{"lazily", "#1 SMP PREEMPT_LAZY Fri Oct 2 08:00:00 UTC 2026", "", true},
		{"in real time", "#1 SMP PREEMPT_RT Debian 6.1.192-2 (2026-10-30)", "", true},
		{"none is chosen", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2", "(none) voluntary full\n", false},
		{"voluntary is chosen", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2", "none (voluntary) full\n", false},
		{"full is chosen", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2", "none voluntary (full)\n", true},
		{"lazy is chosen", "#1 SMP PREEMPT_DYNAMIC Debian 7.3.4-1", "full (lazy)\n", true},
		{"the choice is not known", "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2", "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := preempts(test.version, test.modes); got != test.want {
				t.Errorf("preempts(%q, %q) = %v, want %v", test.version, test.modes, got, test.want)
			}
		})
	}
}
