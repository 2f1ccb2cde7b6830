package nodesnoop

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize/libuv"
	"ustack/tools/trace"
)

// A remoteOperation is one that waits for another process without a job of libuv's pool.
type remoteOperation struct {
	what        string      // of it that is not seen, if it cannot be found
	class, done string      // the prefix and a later part of the names of node's functions that get its result
	begin       []beginning // the functions that begin it; the library has the first
}

// A beginning is a function that begins a remote operation.
type beginning struct {
	symbol string
	kind   bpf.NodesnoopOperationKind
}

const (
	opConnect     = bpf.NodesnoopOperationKindOPERATION_CONNECT
	opConnectPath = bpf.NodesnoopOperationKindOPERATION_CONNECT_PATH
	opQuery       = bpf.NodesnoopOperationKindOPERATION_QUERY
	opReverse     = bpf.NodesnoopOperationKindOPERATION_REVERSE
)

var remoteOperations = []remoteOperation{
	{"when connections are made", "_ZN4node14ConnectionWrapI", "12AfterConnectEP12uv_connect_si", []beginning{
		{"uv_tcp_connect", opConnect},
		{"uv_pipe_connect", opConnectPath},
		{"uv_pipe_connect2", opConnectPath}, // since libuv 1.46
	}},
	{"what DNS servers are asked", "_ZN4node10cares_wrap9QueryWrapI", "8CallbackEPv", []beginning{
		{"ares_query", opQuery},
		{"ares_gethostbyaddr", opReverse},
		{"ares_query_dnsrec", opQuery}, // since c-ares 1.28
	}},
}

// attachRemotes probes where remote operations begin, in libuv and c-ares, and where node gets
// their results.
func (s *session) attachRemotes(t *target, node *trace.Module) (missing []string, err error) {
	for _, x := range remoteOperations {
		found, err := s.attachRemote(t, node, x)
		if err != nil {
			return nil, err
		}
		if !found {
			missing = append(missing, fmt.Sprintf("%s (%s)", x.what, x.done))
		}
	}
	return missing, nil
}

// attachRemote probes first where node gets the results.
func (s *session) attachRemote(t *target, node *trace.Module, x remoteOperation) (found bool, err error) {
	library, err := s.libraryOf(t, node, x.begin[0].symbol)
	if err != nil || library == nil {
		return false, err
	}
	for f := range node.Symbols(x.class) {
		if !strings.Contains(f.Name, x.done) {
			continue
		}
		found = true
		if err := s.attachEntry(t, node, f.Name, s.objects.OnExchanged); err != nil {
			return false, err
		}
	}
	if !found {
		return false, nil
	}
	programs := map[bpf.NodesnoopOperationKind]*ebpf.Program{
		opConnect: s.objects.OnConnect, opConnectPath: s.objects.OnConnectPath, opQuery: s.objects.OnQuery, opReverse: s.objects.OnReverse,
	}
	for _, b := range x.begin {
		if err := s.attachEntry(t, library, b.symbol, programs[b.kind]); err != nil {
			return false, err
		}
	}
	return true, nil
}

// libraryOf returns the file whose function node calls by that name; nil if no file has it. An add-on
// may have one of its own.
func (s *session) libraryOf(t *target, node *trace.Module, symbol string) (*trace.Module, error) {
	if code, _ := node.Code(symbol); code != nil {
		return node, nil
	}
	return s.Table.Module(t.pid, symbol)
}

// attachEntry probes the entry of a function of up to six arguments, if m has it.
func (s *session) attachEntry(t *target, m *trace.Module, symbol string, program *ebpf.Program) error {
	const arguments = 6
	code, offset := m.Code(symbol)
	if code == nil {
		return nil
	}
	site := libuv.Site{Function: libuv.Function{Code: code, Offset: offset}, Machine: m.Machine()}
	point := loader.Point{Offset: offset + uint64(site.Entry(arguments)), Cookie: t.cookie(0)}
	return t.probe(m, loader.Probes{Program: program, Name: symbol, Points: []loader.Point{point}})
}

// records are the types of DNS records (RFC 1035 and later), as the names of node's functions have
// them that ask for them.
var records = map[int32]string{
	1: "4", 28: "6", 255: "Any", 257: "Caa", 5: "Cname", 15: "Mx", 35: "Naptr", 2: "Ns", 12: "Ptr", 6: "Soa", 33: "Srv", 52: "Tlsa", 16: "Txt",
}

// resolves names the function of node's that asks for records of a type.
func resolves(record int32) string { return "dns.resolve" + records[record] }

// queryErrors are the states of queries (include/ares.h, ares_status_t), as node names them
// (lib/dns.js).
var queryErrors = []string{
	"", "ENODATA", "EFORMERR", "ESERVFAIL", "ENOTFOUND", "ENOTIMP", "EREFUSED", "EBADQUERY", "EBADNAME", "EBADFAMILY",
	"EBADRESP", "ECONNREFUSED", "ETIMEOUT", "EOF", "EFILE", "ENOMEM", "EDESTRUCTION", "EBADSTR", "EBADFLAGS", "ENONAME",
	"EBADHINTS", "ENOTINITIALIZED", "ELOADIPHLPAPI", "EADDRGETNETWORKPARAMS", "ECANCELLED", "ESERVICE", "ENOSERVER",
}

// queryFailure names c-ares' status of a query; empty if it has an answer.
func queryFailure(status int64) string {
	if status < 0 || status >= int64(len(queryErrors)) {
		return fmt.Sprintf("error %d", status)
	}
	return queryErrors[status]
}
