// Collector is the OTLP receiver of OpenTelemetry's Collector, which prints the profiles that
// it takes: one JSON object on each line.
//
//	collector HTTP-ADDRESS GRPC-ADDRESS
//
// It prints "ready" once it listens, and shuts down when its standard input ends.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/xconsumer"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/xreceiver"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "collector:", err)
		os.Exit(1)
	}
}

func run(addresses []string) error {
	if len(addresses) != 2 {
		return errors.New("usage: collector HTTP-ADDRESS GRPC-ADDRESS")
	}
	factory := otlpreceiver.NewFactory().(xreceiver.Factory)
	config := factory.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{
		"http": map[string]any{"endpoint": addresses[0]},
		"grpc": map[string]any{"endpoint": addresses[1]},
	}}).Unmarshal(config); err != nil {
		return err
	}
	out := &printer{json: json.NewEncoder(os.Stdout)}
	next, err := xconsumer.NewProfiles(out.consume)
	if err != nil {
		return err
	}
	ctx := context.Background()
	settings := receiver.Settings{
		ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings(), BuildInfo: component.NewDefaultBuildInfo(),
	}
	profiles, err := factory.CreateProfiles(ctx, settings, config, next)
	if err != nil {
		return err
	}
	if err := profiles.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, profiles.Shutdown(ctx))
}

// A printer prints profiles.
type printer struct {
	mutex sync.Mutex
	json  *json.Encoder
}

// A profile is what is printed of one.
type profile struct {
	Labels   map[string]any   `json:"labels"`
	ID       string           `json:"id"`
	Type     string           `json:"type"` // as "samples/count"
	Period   int64            `json:"period"`
	Duration uint64           `json:"duration"`
	Sum      int64            `json:"sum"`
	Stacks   map[string]int64 `json:"stacks"`  // values by "leaf;…;root", each as NAME FILE:LINE [TYPE]
	Threads  map[string]int64 `json:"threads"` // values by thread
}

func (p *printer) consume(_ context.Context, all pprofile.Profiles) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	d := dictionary{all.Dictionary()}
	for _, resource := range all.ResourceProfiles().All() {
		for _, scope := range resource.ScopeProfiles().All() {
			for _, from := range scope.Profiles().All() {
				to := d.read(from)
				to.Labels = resource.Resource().Attributes().AsRaw()
				if err := p.json.Encode(to); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// A dictionary is the tables of a request.
type dictionary struct{ pprofile.ProfilesDictionary }

func (d dictionary) text(index int32) string { return d.StringTable().At(int(index)) }

func (d dictionary) read(from pprofile.Profile) *profile {
	of := from.SampleType()
	to := &profile{
		ID: fmt.Sprintf("%x", from.ProfileID()), Type: d.text(of.TypeStrindex()) + "/" + d.text(of.UnitStrindex()),
		Period: from.Period(), Duration: from.DurationNano(), Stacks: make(map[string]int64), Threads: make(map[string]int64),
	}
	for _, sample := range from.Samples().All() {
		for _, value := range sample.Values().All() {
			to.Sum += value
			to.Stacks[d.stack(sample.StackIndex())] += value
			to.Threads[d.attribute(sample.AttributeIndices().AsRaw(), "thread.name")] += value
		}
	}
	return to
}

func (d dictionary) attribute(indices []int32, name string) string {
	for _, i := range indices {
		if a := d.AttributeTable().At(int(i)); d.text(a.KeyStrindex()) == name {
			return a.Value().AsString()
		}
	}
	return ""
}

func (d dictionary) stack(index int32) string {
	var frames []string
	for _, i := range d.StackTable().At(int(index)).LocationIndices().All() {
		location := d.LocationTable().At(int(i))
		for _, line := range location.Lines().All() {
			f := d.FunctionTable().At(int(line.FunctionIndex()))
			frames = append(frames, fmt.Sprintf("%s %s:%d [%s]", d.text(f.NameStrindex()), d.text(f.FilenameStrindex()), line.Line(),
				d.attribute(location.AttributeIndices().AsRaw(), "profile.frame.type")))
		}
	}
	return strings.Join(frames, ";")
}
