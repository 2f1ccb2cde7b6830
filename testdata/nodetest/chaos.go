package nodetest

import "os"

// Rounds returns how many times a test repeats an attack whose outcome depends
// on chance: short in every run, long under USTACK_CHAOS=1 (make chaos).
func Rounds(short, long int) int {
	if os.Getenv("USTACK_CHAOS") == "1" {
		return long
	}
	return short
}
