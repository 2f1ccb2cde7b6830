package main

import (
	"fmt"
	"io"
	"time"

	"ustack/cmd/internal/cli"
	"ustack/tools/addonlat"
	"ustack/tools/heatmap"
	"ustack/tools/outfile"
)

// A heatmapFlag writes latencies over time to a file of its own, if one is named.
type heatmapFlag struct {
	path string
	file *outfile.File
	data *heatmap.Map
}

// How wide the columns of a heat map are at first.
const (
	columnsAtFirst = 300 // in the time that is known beforehand
	usualColumn    = 200 * time.Millisecond
	leastColumn    = 100 * time.Millisecond
)

// open checks that the file can be written.
func (h *heatmapFlag) open() (err error) {
	if h.path != "" {
		h.file, err = outfile.Open(h.path, outfile.Options{})
	}
	return err
}

func (h *heatmapFlag) close() {
	if h.file != nil {
		h.file.Close()
	}
}

// watch has what is measured gathered by time.
func (h *heatmapFlag) watch(f *flags, o *addonlat.Options) {
	if h.file == nil {
		return
	}
	o.Every = usualColumn
	if o.Duration > 0 {
		o.Every = max(o.Duration/columnsAtFirst, leastColumn)
	}
	h.data = heatmap.New(len(addonlat.SliceKind{}.Parts), o.Every)
	withPID := len(f.targets.PIDs) != 1
	o.Slice = func(s *addonlat.Slice) time.Duration {
		h.data.Begin(s.Begin, s.End)
		for i := range s.Kinds {
			k := &s.Kinds[i]
			h.data.Add(k.ID, f.view.name(&addonlat.Kind{PID: k.PID, Key: k.Key, Stack: k.Stack}, withPID), k.Parts[:])
		}
		return h.data.Width()
	}
}

// write writes the page.
func (h *heatmapFlag) write(f *flags, messages *cli.Messages) error {
	if h.file == nil {
		return nil
	}
	by := addonlat.Bys[f.addonlat.By]
	if err := h.file.Write(func(w io.Writer) error {
		return h.data.WriteHTML(w, heatmap.Text{
			Title:   fmt.Sprintf("addonlat %v", &f.targets),
			Summary: fmt.Sprintf("%d jobs by %s, when they were completed", h.data.Count(), by),
			Parts:   []string{"total", "wait for a thread", "run", "delivery to the event loop"}, Noun: "jobs",
		})
	}); err != nil {
		return err
	}
	messages.Notef("heat map of %d jobs: %s", h.data.Count(), h.path)
	return nil
}
