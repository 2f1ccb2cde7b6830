// Pyroscope is a server of Pyroscope's push API, which prints the profiles that it takes: one
// JSON object on each line.
//
//	pyroscope ADDRESS
//
// It prints "ready" once it listens, and shuts down when its standard input ends.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"

	"connectrpc.com/connect"
	pprof "github.com/google/pprof/profile"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pyroscope:", err)
		os.Exit(1)
	}
}

func run(addresses []string) error {
	if len(addresses) != 1 {
		return errors.New("usage: pyroscope ADDRESS")
	}
	listener, err := net.Listen("tcp", addresses[0])
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(pushv1connect.NewPusherServiceHandler(&printer{json: json.NewEncoder(os.Stdout)}))
	server := http.Server{Handler: mux}
	done := make(chan error)
	go func() { done <- server.Serve(listener) }()
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	err = errors.Join(err, server.Shutdown(context.Background()))
	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// A printer prints profiles.
type printer struct {
	mutex sync.Mutex
	json  *json.Encoder
}

// A profile is what is printed of one.
type profile struct {
	Labels map[string]string `json:"labels"`
	Types  []string          `json:"types"` // as "samples/count"
	Sums   []int64           `json:"sums"`  // of the values of each type
}

// Push takes profiles as Pyroscope does: each must be valid, and of a series with a name.
func (p *printer) Push(_ context.Context, request *connect.Request[pushv1.PushRequest]) (*connect.Response[pushv1.PushResponse], error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, series := range request.Msg.Series {
		labels := make(map[string]string)
		for _, l := range series.Labels {
			labels[l.Name] = l.Value
		}
		for _, sample := range series.Samples {
			to, err := read(sample.RawProfile)
			if err != nil || labels["__name__"] == "" {
				return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("profile of %v: %w", labels, err))
			}
			to.Labels = labels
			if err := p.json.Encode(to); err != nil {
				return nil, err
			}
		}
	}
	return connect.NewResponse(&pushv1.PushResponse{}), nil
}

func read(raw []byte) (*profile, error) {
	from, err := pprof.Parse(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	to := &profile{Sums: make([]int64, len(from.SampleType))}
	for _, t := range from.SampleType {
		to.Types = append(to.Types, t.Type+"/"+t.Unit)
	}
	for _, s := range from.Sample {
		for i, value := range s.Value {
			to.Sums[i] += value
		}
	}
	return to, nil
}
