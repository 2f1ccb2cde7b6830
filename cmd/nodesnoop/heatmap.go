package main

import (
	"fmt"
	"io"
	"time"

	"ustack/cmd/internal/cli"
	"ustack/tools/heatmap"
	"ustack/tools/nodesnoop"
	"ustack/tools/outfile"
	"ustack/tools/quantize"
)

// A heatmapFlag writes latencies over time to a file of its own, if one is named.
type heatmapFlag struct {
	path string
	file *outfile.File
	data *heatmap.Map

	by     nodesnoop.Summary // only for its keys
	begun  time.Time
	counts map[*nodesnoop.Group]*heatmap.Counts // since then
}

// firstColumn is how wide the columns of a heat map are at first.
const firstColumn = 250 * time.Millisecond

// open checks that the file can be written.
func (h *heatmapFlag) open() (err error) {
	if h.path != "" {
		h.file, err = outfile.Open(h.path, outfile.Options{})
		h.data = heatmap.New(1, firstColumn)
	}
	return err
}

func (h *heatmapFlag) close() {
	if h.file != nil {
		h.file.Close()
	}
}

func (h *heatmapFlag) begin(by nodesnoop.By) {
	h.by.By, h.begun = by, time.Now()
	h.counts = make(map[*nodesnoop.Group]*heatmap.Counts)
}

// event counts an event.
func (h *heatmapFlag) event(e *nodesnoop.Event) {
	if h.file == nil {
		return
	}
	g := h.by.Add(e)
	c := h.counts[g]
	if c == nil {
		c = new(heatmap.Counts)
		h.counts[g] = c
	}
	c[quantize.Index(uint64(e.Latency))]++
}

// column ends a column.
func (h *heatmapFlag) column(now time.Time) {
	if h.file == nil || now.Sub(h.begun) < h.data.Width() && len(h.counts) == 0 {
		return
	}
	h.data.Begin(h.begun, now)
	for g, c := range h.counts {
		h.data.Add(g, title(g), []heatmap.Counts{*c})
	}
	h.begun = now
	clear(h.counts)
}

// write writes the page.
func (h *heatmapFlag) write(targets fmt.Stringer, messages *cli.Messages) error {
	if h.file == nil {
		return nil
	}
	h.column(time.Now())
	if err := h.file.Write(func(w io.Writer) error {
		return h.data.WriteHTML(w, heatmap.Text{
			Title:   fmt.Sprintf("nodesnoop %v", targets),
			Summary: fmt.Sprintf("%d events by %s, when they ended", h.data.Count(), nodesnoop.Bys[h.by.By]),
			Parts:   []string{"latency"}, Noun: "events",
		})
	}); err != nil {
		return err
	}
	messages.Notef("heat map of %d events: %s", h.data.Count(), h.path)
	return nil
}
