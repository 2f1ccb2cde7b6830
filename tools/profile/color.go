package profile

import (
	"fmt"
	"hash/fnv"
	"math"

	"ustack/symbolize"
)

// A hue is the range of a kind's colours: degrees on the colour circle, over
// how many of them the kind's functions are spread, and their saturation from 0
// to 1.
type hue struct {
	From       float64 `json:"from"`
	Span       float64 `json:"span"`
	Saturation float64 `json:"saturation"`
}

var kindHues = map[symbolize.Kind]hue{
	symbolize.JS:      {26, 22, 0.86},
	symbolize.Builtin: {152, 22, 0.42},
	symbolize.Native:  {204, 18, 0.58},
	symbolize.Kernel:  {272, 24, 0.48},
	symbolize.Typed:   {60, 10, 0.14},
	symbolize.Wasm:    {318, 22, 0.52},
	symbolize.RegExp:  {2, 12, 0.6},
	symbolize.Runtime: {236, 18, 0.5},
}

// A legendEntry says what a colour means.
type legendEntry struct {
	Label string `json:"label"`
	Color string `json:"color"` // "#rrggbb"
}

// legend returns the colours of the most common kinds.
func legend() []legendEntry {
	entry := func(kind symbolize.Kind, label string) legendEntry {
		h := kindHues[kind]
		return legendEntry{label, hsl(h.From+h.Span/2, h.Saturation, 0.72)}
	}
	return []legendEntry{
		entry(symbolize.JS, "JavaScript"),
		entry(symbolize.Wasm, "WebAssembly"),
		entry(symbolize.RegExp, "RegExp"),
		entry(symbolize.Builtin, "V8 builtin"),
		entry(symbolize.Native, "native"),
		entry(symbolize.Kernel, "kernel"),
	}
}

// fill returns the colour of a function's box as "#rrggbb": the kind determines
// the hue, the name the shade, which is the same in every graph.
func fill(n *node) string {
	if n.frame == (symbolize.Frame{}) || mark(n.frame) {
		return "#d5d8dc"
	}
	h := fnv.New32a()
	h.Write([]byte(name(n.frame)))
	sum := h.Sum32()
	shade, turn := float64(sum%251)/250, float64(sum/251%241)/240
	k := kindHues[n.frame.Kind]
	return hsl(k.From+turn*k.Span, k.Saturation, 0.66+shade*0.12)
}

// hsl returns the colour of hue h in degrees, saturation s and lightness l as "#rrggbb".
func hsl(h, s, l float64) string {
	channel := func(n float64) int {
		k := math.Mod(n+h/30, 12)
		return int(math.Round(255 * (l - s*min(l, 1-l)*max(-1, min(k-3, 9-k, 1)))))
	}
	return fmt.Sprintf("#%02x%02x%02x", channel(0), channel(8), channel(4))
}
