package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// A message is a request or an answer as it is sent.
type message struct{ body []byte }

// raw is the codec of messages, and of what errors consist of.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(m any) ([]byte, error) {
	if of, ok := m.(proto.Message); ok {
		return proto.Marshal(of)
	}
	return m.(*message).body, nil
}

func (raw) Unmarshal(body []byte, m any) error {
	if of, ok := m.(proto.Message); ok {
		return proto.Unmarshal(body, of)
	}
	m.(*message).body = bytes.Clone(body)
	return nil
}

// caller returns a function that sends a request by gRPC.
func (r *Receiver) caller() func(context.Context, []byte) error {
	options := []connect.ClientOption{connect.WithGRPC(), connect.WithCodec(raw{}), connect.WithReadMaxBytes(maxAnswer)}
	if r.protocol.zip {
		options = append(options, connect.WithSendGzip())
	}
	client := connect.NewClient[message, message](r.client, r.address(), options...)
	return func(ctx context.Context, body []byte) error {
		request := connect.NewRequest(&message{body})
		r.setHeaders(request.Header())
		response, err := client.CallUnary(ctx, request)
		if err != nil {
			return refusal(err)
		}
		if r.protocol.answer == nil {
			return nil
		}
		return r.protocol.answer(response.Msg.body)
	}
}

// refusal returns what a failed call means, as OpenTelemetry's protocol has it: of these codes
// some are of conditions that pass, and one if the receiver says when.
func refusal(err error) error {
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeAborted, connect.CodeCanceled,
		connect.CodeOutOfRange, connect.CodeDataLoss:
		return &laterError{err, retryDelay(err)}
	case connect.CodeResourceExhausted:
		if after := retryDelay(err); after > 0 {
			return &laterError{err, after}
		}
	}
	return &rejection{err}
}

// retryDelay returns when a receiver wants to be asked again; 0 if it does not say.
func retryDelay(err error) time.Duration {
	var of *connect.Error
	if !errors.As(err, &of) {
		return 0
	}
	for _, detail := range of.Details() {
		if detail.Type() == "google.rpc.RetryInfo" {
			delay := fieldsOf(fieldsOf(detail.Bytes())[1].bytes)
			return time.Duration(delay[1].number)*time.Second + time.Duration(delay[2].number)
		}
	}
	return 0
}

// A value is what a field of a message holds: a number, or bytes.
type value struct {
	number uint64
	bytes  []byte
}

// fieldsOf returns the fields of a message, the last of each number; none if it is malformed.
func fieldsOf(body []byte) map[protowire.Number]value {
	found := make(map[protowire.Number]value)
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return nil
		}
		body = body[n:]
		var v value
		switch kind {
		case protowire.VarintType:
			v.number, n = protowire.ConsumeVarint(body)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(body)
		default:
			n = protowire.ConsumeFieldValue(number, kind, body)
		}
		if n < 0 {
			return nil
		}
		found[number] = v
		body = body[n:]
	}
	return found
}

// otlpAnswer returns what an answer of OpenTelemetry's protocol says was rejected: the answer
// to a request is success even then.
func otlpAnswer(body []byte) error {
	partial := fieldsOf(fieldsOf(body)[1].bytes)
	if rejected := partial[1].number; rejected > 0 {
		return &rejection{fmt.Errorf("%d profiles were rejected: %s", rejected, excerpt(partial[2].bytes))}
	}
	return nil
}
