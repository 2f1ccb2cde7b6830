package space

import "ustack/symbolize/process"

// maxLive bounds the mappings of a live process that are searched, in bytes: a search
// reads up to 256 KB at a time.
const maxLive = 1 << 36

// Live is the memory of a process that may be running.
type Live struct{ *process.Process }

// Regions returns the process's readable mappings, by address, up to a bound on their
// size; none if it has ended.
func (l Live) Regions() []Region {
	maps, err := l.Maps()
	if err != nil {
		return nil
	}
	var regions []Region
	searched := uint64(0)
	for _, m := range maps {
		size := m.End - m.Start
		if !m.Perms.Read() || size > maxLive-searched {
			continue
		}
		searched += size
		region := Region{Start: m.Start, End: m.End, Write: m.Perms.Write(), Exec: m.Perms.Exec()}
		if !m.Anonymous() {
			region.File = m.Path
		}
		regions = append(regions, region)
	}
	return regions
}

// NextData returns address: any of the memory may hold something.
func (Live) NextData(address uint64) (next uint64, ok bool) { return address, true }
