package push

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"ustack/tools/labels"
)

// Pyroscope and Parca take profiles as pprof's, with labels. Their messages differ only in
// where the labels are.

// pyroscope returns a PushRequest of Pyroscope's push API.
func pyroscope(p *Profile, zip *gzip.Writer) ([]byte, error) {
	return request(p, zip, func(series, labels []byte) []byte { return append(series, labels...) })
}

// parca returns a WriteRawRequest of Parca's profile store.
func parca(p *Profile, zip *gzip.Writer) ([]byte, error) {
	const tenantless = 2 // the field of series in a request without a tenant
	body, err := request(p, zip, func(series, labels []byte) []byte { return bytesField(series, 1, labels) })
	if err != nil {
		return nil, err
	}
	_, _, n := protowire.ConsumeTag(body)
	return append(protowire.AppendTag(nil, tenantless, protowire.BytesType), body[n:]...), nil
}

// request returns a message whose first field is a series: labels, as put puts them there, and
// a list of profiles, here one.
func request(p *Profile, zip *gzip.Writer, put func(series, labels []byte) []byte) ([]byte, error) {
	var profile bytes.Buffer
	zip.Reset(&profile)
	if err := errors.Join(p.Data.WriteUncompressed(zip), zip.Close()); err != nil {
		return nil, err
	}
	series := put(nil, labelFields(p))
	series = bytesField(series, 2, bytesField(nil, 1, profile.Bytes()))
	return bytesField(nil, 1, series), nil
}

// labelFields returns the labels, each a message with a name and a value, by name.
func labelFields(p *Profile) (body []byte) {
	all := append(slices.Clone(p.Labels), labels.Label{Short: "__name__", Value: metric(p)})
	slices.SortFunc(all, func(a, b labels.Label) int { return cmp.Compare(a.Short, b.Short) })
	for _, l := range all {
		body = bytesField(body, 1, bytesField(bytesField(nil, 1, []byte(l.Short)), 2, []byte(l.Value)))
	}
	return body
}

func bytesField(to []byte, number protowire.Number, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), body)
}

// metric returns the name of the profile's kind: that of CPU time is Go's own profile's, which
// the receivers know.
func metric(p *Profile) string {
	if t := p.Data.PeriodType; t != nil && t.Type == "cpu" {
		return "process_cpu"
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, p.Data.SampleType[0].Type)
}
