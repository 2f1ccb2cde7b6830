package trace

// A Numbering hands out small numbers from 0 on, those that were given back first. The
// zero value is ready to use.
type Numbering struct {
	next  uint32
	again []uint32
}

// Take returns a number that is not in use.
func (n *Numbering) Take() uint32 {
	if last := len(n.again) - 1; last >= 0 {
		number := n.again[last]
		n.again = n.again[:last]
		return number
	}
	n.next++
	return n.next - 1
}

// GiveBack makes a number available again.
func (n *Numbering) GiveBack(number uint32) { n.again = append(n.again, number) }
