package push

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	pprof "github.com/google/pprof/profile"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// call serves a procedure by gRPC without TLS, and returns a receiver there.
func call(t *testing.T, protocol string, handle func(body []byte) ([]byte, error)) *Receiver {
	t.Helper()
	mux := http.NewServeMux()
	s := httptest.NewUnstartedServer(mux)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	r, err := Parse(strings.Replace(s.URL, "http", protocol, 1), http.Header{"Authorization": {"Bearer secret"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	mux.Handle(r.protocol.path, connect.NewUnaryHandler(r.protocol.path, func(_ context.Context, request *connect.Request[message]) (*connect.Response[message], error) {
		if request.Header().Get("Authorization") != "Bearer secret" {
			return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("who are you"))
		}
		answer, err := handle(request.Msg.body)
		if err != nil {
			return nil, err
		}
		return connect.NewResponse(&message{answer}), nil
	}, connect.WithCodec(raw{})))
	return r
}

// TestCodesSayWhetherToTryAgain, as OpenTelemetry's protocol has it.
func TestCodesSayWhetherToTryAgain(t *testing.T) {
	later := map[connect.Code]bool{
		connect.CodeUnavailable: true, connect.CodeDeadlineExceeded: true, connect.CodeAborted: true,
		connect.CodeCanceled: true, connect.CodeOutOfRange: true, connect.CodeDataLoss: true,
	}
	for code := connect.CodeCanceled; code <= connect.CodeUnauthenticated; code++ {
		r := call(t, "otlp+grpc", func([]byte) ([]byte, error) { return nil, connect.NewError(code, errors.New("no")) })
		err := r.call(t.Context(), nil)
		var refused *rejection
		if got := err != nil && !errors.As(err, &refused); got != later[code] {
			t.Errorf("after %v: tried again %v, want %v (%v)", code, got, later[code], err)
		}
	}
	for seconds, want := range map[int64]bool{0: false, 3: true} {
		r := call(t, "otlp+grpc", func([]byte) ([]byte, error) {
			err := connect.NewError(connect.CodeResourceExhausted, errors.New("too much"))
			return nil, withDelay(t, err, time.Duration(seconds)*time.Second)
		})
		err := r.call(t.Context(), nil)
		var after *laterError
		if got := errors.As(err, &after); got != want || got && after.after != time.Duration(seconds)*time.Second {
			t.Errorf("exhausted for %d s: %v, want that it may be later: %v", seconds, err, want)
		}
	}
}

// withDelay adds to an error when to try again, as receivers do; nothing if that is zero.
func withDelay(t *testing.T, err *connect.Error, delay time.Duration) error {
	if delay == 0 {
		return err
	}
	duration, marshalErr := proto.Marshal(durationpb.New(delay))
	detail, detailErr := connect.NewErrorDetail(&anypb.Any{
		TypeUrl: "type.googleapis.com/google.rpc.RetryInfo", Value: bytesField(nil, 1, duration), // its only field
	})
	if err := errors.Join(marshalErr, detailErr); err != nil {
		t.Fatal(err)
	}
	err.AddDetail(detail)
	return err
}

func TestPartialSuccessIsARejection(t *testing.T) {
	partial := bytesField(nil, 1, bytesField(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1), 2, []byte("no such tenant")))
	r := call(t, "otlp+grpc", func([]byte) ([]byte, error) { return partial, nil })
	err := r.call(t.Context(), nil)
	var refused *rejection
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "no such tenant") {
		t.Errorf("error = %v, want a rejection with its reason", err)
	}
	for _, body := range [][]byte{nil, bytesField(nil, 1, nil), bytesField(nil, 1, bytesField(nil, 2, []byte("a warning"))), {0xff}} {
		if err := otlpAnswer(body); err != nil {
			t.Errorf("answer %x is %v, want success", body, err)
		}
	}
}

// TestParcaGetsLabelsAndAProfile decodes the request by the numbers of Parca's messages.
func TestParcaGetsLabelsAndAProfile(t *testing.T) {
	var request []byte
	r := call(t, "parca+grpc", func(body []byte) ([]byte, error) {
		request = body
		return nil, nil
	})
	p := New(r, func(err error) { t.Error(err) })
	p.Push(sample(23, "f"))
	checkCounts(t, p.Close(t.Context()), 23, 23, nil)
	series := fieldsOf(fieldsOf(request)[2].bytes)
	set := series[1].bytes
	first, _, n := protowire.ConsumeTag(set)
	name, _ := protowire.ConsumeBytes(set[n:])
	if l := fieldsOf(name); first != 1 || string(l[1].bytes) != "__name__" || string(l[2].bytes) != "process_cpu" {
		t.Errorf("first label = %q, want the name of the metric", name)
	}
	if l := fieldsOf(fieldsOf(set)[1].bytes); string(l[1].bytes) != "service_name" || string(l[2].bytes) != "checkout" {
		t.Errorf("last label = %v, want the service", l)
	}
	got, err := pprof.Parse(bytes.NewReader(fieldsOf(series[2].bytes)[1].bytes))
	if err != nil {
		t.Fatal(err)
	}
	if got.Sample[0].Value[0] != 23 {
		t.Errorf("samples = %d, want 23", got.Sample[0].Value[0])
	}
}

func FuzzFields(f *testing.F) {
	f.Add(bytesField(nil, 1, []byte("text")))
	f.Add([]byte{0x08, 0x96, 0x01})
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, v := range fieldsOf(body) {
			if len(v.bytes) > len(body) {
				t.Errorf("a field of %d bytes in %d", len(v.bytes), len(body))
			}
			fieldsOf(v.bytes)
		}
		_ = otlpAnswer(body)
	})
}
