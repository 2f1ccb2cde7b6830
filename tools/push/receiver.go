package push

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Receiver takes profiles in one protocol.
type Receiver struct {
	protocol protocol
	base     url.URL // with the scheme of the transport, http or https
	headers  http.Header
	client   *http.Client
	zip      *gzip.Writer // of encode; its tables are large
	// call sends a request. It returns a rejection if there is no use in sending it again.
	call func(ctx context.Context, body []byte) error
}

// A protocol says what is sent to a receiver, and where to.
type protocol struct {
	name   string
	path   string                                       // of the request
	grpc   bool                                         // else a POST of HTTP
	port   string                                       // if the URL has none
	zip    bool                                         // bodies are compressed on their way
	body   func(*Profile, *gzip.Writer) ([]byte, error) // of the request; what it compresses it does by the writer
	answer func([]byte) error                           // what an answer says was rejected; nil: it says nothing
}

// protocols lists what Parse knows.
var protocols = []protocol{
	{name: "otlp+http", path: "/v1development/profiles", port: "4318", zip: true, body: otlp, answer: otlpAnswer},
	{name: "otlp+grpc", path: "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export", port: "4317", grpc: true, zip: true, body: otlp, answer: otlpAnswer},
	{name: "pyroscope+http", path: "/push.v1.PusherService/Push", port: "4040", body: pyroscope},
	{name: "parca+grpc", path: "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw", port: "7070", grpc: true, body: parca},
}

// Protocols lists the schemes of receivers' URLs; each may have an s added, for TLS.
func Protocols() (names []string) {
	for _, p := range protocols {
		names = append(names, p.name)
	}
	return names
}

// Parse returns the receiver at a URL, PROTOCOL://HOST[:PORT][/PATH], to which each request
// has these headers. What the protocol appends to the path is added.
func Parse(text string, headers http.Header) (*Receiver, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	scheme, secure := strings.CutSuffix(u.Scheme, "s")
	at := slices.IndexFunc(protocols, func(p protocol) bool { return p.name == scheme })
	switch {
	case at < 0:
		return nil, fmt.Errorf("%q is not one of the protocols %s (each with an s for TLS)", u.Scheme, strings.Join(Protocols(), ", "))
	case u.User != nil:
		return nil, errors.New("a password in a URL is visible to all users (give a header in a file)")
	case u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%q does not have the form PROTOCOL://HOST[:PORT][/PATH]", text)
	}
	zip, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	r := &Receiver{protocol: protocols[at], base: *u, headers: headers, zip: zip}
	r.base.Scheme = "http"
	if secure {
		r.base.Scheme = "https"
	}
	if u.Port() == "" && !secure {
		r.base.Host += ":" + r.protocol.port
	}
	r.connect(secure)
	return r, nil
}

// String returns the receiver's address.
func (r *Receiver) String() string { return r.protocol.name + " " + r.base.Host }

// connect prepares the connection, which the first request makes.
func (r *Receiver) connect(secure bool) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxConnsPerHost = 1
	if r.protocol.grpc && !secure {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	r.client = &http.Client{
		Transport: transport,
		// Headers with credentials are for this receiver.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	r.call = r.post
	if r.protocol.grpc {
		r.call = r.caller()
	}
}

func (r *Receiver) close() { r.client.CloseIdleConnections() }

// address is where requests go.
func (r *Receiver) address() string { return r.base.JoinPath(r.protocol.path).String() }

// encode returns the body of the request that sends a profile. It must not be called
// concurrently.
func (r *Receiver) encode(p *Profile) ([]byte, error) {
	body, err := r.protocol.body(p, r.zip)
	if err != nil || !r.protocol.zip || r.protocol.grpc {
		return body, err
	}
	var zipped bytes.Buffer
	r.zip.Reset(&zipped)
	if _, err := r.zip.Write(body); err != nil {
		return nil, err
	}
	err = r.zip.Close()
	return zipped.Bytes(), err
}

// A rejection says that a receiver will never take a profile.
type rejection struct{ error }

// A laterError says that a receiver may take a profile later.
type laterError struct {
	error
	after time.Duration // 0: it does not say when
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 1 << 16

// post sends a request by HTTP.
func (r *Receiver) post(ctx context.Context, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.address(), bytes.NewReader(body))
	if err != nil {
		return &rejection{err}
	}
	r.setHeaders(request.Header)
	request.Header.Set("Content-Type", "application/x-protobuf")
	if r.protocol.zip {
		request.Header.Set("Content-Encoding", "gzip")
	} else {
		request.Header.Set("Content-Type", "application/proto")
	}
	response, err := r.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err := failure(response, answer); err != nil {
		return err
	}
	if err != nil || r.protocol.answer == nil {
		return nil // it was taken, whatever became of the answer
	}
	return r.protocol.answer(answer)
}

func (r *Receiver) setHeaders(to http.Header) {
	for name, values := range r.headers {
		to[name] = values
	}
}

// failure returns what the status of a response says, nil if it is success.
func failure(response *http.Response, answer []byte) error {
	if response.StatusCode/100 == 2 {
		return nil
	}
	err := fmt.Errorf("HTTP status %s: %s", response.Status, excerpt(answer))
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		return &laterError{err, time.Duration(seconds) * time.Second}
	}
	return &rejection{err}
}

// excerpt returns the beginning of an answer.
func excerpt(answer []byte) string {
	const enough = 200
	return strings.ToValidUTF8(string(answer[:min(len(answer), enough)]), "?")
}

// maxHeaders bounds a file of headers.
const maxHeaders = 1 << 16

// ReadHeaders reads headers, such as Authorization, from a file: one on each line, as in HTTP.
func ReadHeaders(file string) (http.Header, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read headers: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxHeaders))
	if err != nil {
		return nil, fmt.Errorf("read headers: %w", err)
	}
	text = append(bytes.TrimSpace(text), "\r\n\r\n"...)
	headers, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(text))).ReadMIMEHeader()
	if err != nil {
		return nil, fmt.Errorf("read headers from %s: a line is not \"Name: value\"", file) // err quotes what is secret
	}
	return http.Header(headers), nil
}
