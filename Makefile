# ustack: see README.md. All targets work as root on Debian 12 with Go, make,
# Node.js and npm; "make generate" and "make lint" also need clang 14.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# go leaves folders named testdata out of "./...".
PACKAGES := ./... ./testdata/nodetest/...
COMMANDS := $(patsubst cmd/%/main.go,%,$(wildcard cmd/*/main.go))
BPF_C := $(wildcard bpf/*.c bpf/*.h bpf/hosttest/*.c bpf/hosttest/include/bpf/*.h)
GO_DIRS := . testdata/nodetest

CLANG_FORMAT := clang-format-14
CLANG_PACKAGES := clang-14 clang-format-14 llvm-14 libbpf-dev
SECONDS_OF_DEMO := 5
PREFIX ?= /usr/local
DIST := dist
VERSION = $(shell packaging/version.sh)
LDFLAGS = -s -w -buildid= -E ustack_entry -X ustack/cmd/internal/cli.release=$(VERSION)
# Where the completions of each shell go, below share.
SHELLS := bash:bash-completion/completions/%s zsh:zsh/site-functions/_%s fish:fish/vendor_completions.d/%s.fish
CACHE := $(or $(USTACK_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ustack)
SQLITE := sqlite3@6.0.1
KERNELS ?= all
# Keeps README.md's tables by what tests print.
WORKS := go run ./testdata/nodetest/works

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## static binaries into bin/
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/ $(COMMANDS:%=./cmd/%)

.PHONY: install
install: $(if $(wildcard $(COMMANDS:%=bin/%)),,build) ## binaries, manuals and completions below $(DESTDIR)$(PREFIX), which is /usr/local
	@root='$(DESTDIR)$(PREFIX)'; for tool in $(COMMANDS); do \
		install -D -m 755 bin/$$tool "$$root/bin/$$tool"; \
		install -D -m 644 cmd/$$tool/$$tool.1 "$$root/share/man/man1/$$tool.1"; \
		for shell in $(SHELLS); do \
			bin/$$tool --completion $${shell%%:*} | install -D -m 644 /dev/stdin "$$root/share/$$(printf "$${shell#*:}" $$tool)"; \
		done; \
	done; \
	install -D -m 644 LICENSE "$$root/share/doc/ustack/LICENSE"; \
	install -D -m 644 packaging/jsprof.service "$$root/lib/systemd/system/jsprof.service"; \
	install -D -m 644 packaging/jsprof-daemonset.yaml "$$root/share/doc/ustack/examples/jsprof-daemonset.yaml"; \
	install -D -m 755 npm/dtrace "$$root/share/doc/ustack/examples/dtrace"

.PHONY: uninstall
uninstall: ## remove what install installs
	@root='$(DESTDIR)$(PREFIX)'; for tool in $(COMMANDS); do \
		rm -f "$$root/bin/$$tool" "$$root/share/man/man1/$$tool.1"; \
		for shell in $(SHELLS); do rm -f "$$root/share/$$(printf "$${shell#*:}" $$tool)"; done; \
	done; \
	rm -f "$$root/lib/systemd/system/jsprof.service"; \
	rm -rf "$$root/share/doc/ustack"

.PHONY: dist
dist: build ## an archive and a Debian package, with checksums, in $(DIST): the same bytes each time
	packaging/dist.sh '$(abspath $(DIST))' '$(VERSION)'

.PHONY: image
image: build ## a static OCI image as a tar file in $(DIST): the same bytes each time
	packaging/image.sh '$(abspath $(DIST))' '$(VERSION)'

.PHONY: test-image
test-image: build ## unpack the image with umoci and skopeo, and run it beside a node in another root (as root)
	packaging/image-test.sh

.PHONY: dtrace-provider
dtrace-provider: ## npm's package of static probes, compiled, in $(DIST) (also for arm64, if gcc can)
	@make -C npm/dtrace-provider
	@if command -v aarch64-linux-gnu-gcc >/dev/null; then make -C npm/dtrace-provider ARCH=arm64 CC=aarch64-linux-gnu-gcc; fi
	@mkdir -p $(DIST); cd npm/dtrace-provider; npm pack --silent --pack-destination '$(abspath $(DIST))'

.PHONY: test-dist
test-dist: ## try what dist and install make in an empty root (as root)
	packaging/test.sh

.PHONY: generate
generate: clang ## compile the kernel half again (what is committed needs no clang)
	go generate ./...

.PHONY: record-stacks
record-stacks: nodes ## record the stacks that bpf/hosttest unwinds again (as root)
	USTACK_RECORD=1 go test -count=1 -run '^TestRecord$$' ./bpf/hosttest

.PHONY: v8-release
v8-release: ## measure the binary NODE=path and print the file of its V8 release (symbolize/v8/release)
	@[ -n '$(NODE)' ] || { echo 'usage: make v8-release NODE=path' >&2; exit 2; }; \
	file=$$(mktemp); trap 'rm -f $$file' EXIT; \
	USTACK_MEASURE='$(abspath $(NODE))' USTACK_MEASURED=$$file go test -count=1 -v -run '^TestMeasure$$' ./symbolize/v8/release >&2; \
	cat $$file

.PHONY: clang
clang:
	@for tool in clang-14 llvm-strip-14 $(CLANG_FORMAT); do command -v $$tool >/dev/null || missing=1; done; \
	[ -e /usr/include/bpf/bpf_helpers.h ] || missing=1; \
	if [ -z "$${missing:-}" ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -q; \
		DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $(CLANG_PACKAGES); \
	else \
		echo "clang 14 is needed (as root: apt-get install $(CLANG_PACKAGES))" >&2; exit 1; \
	fi

.PHONY: nodes
nodes: ## fetch every Node.js version that is tested, from npm into the cache
	go test -count=1 -run '^TestVersionsAreFetched$$' ./testdata/nodetest

# What loads BPF programs is tested one package after another: the tests check that none
# is left in the kernel. The other packages are tested beside them. All are vetted by lint.
LOADS_BPF = $(shell go list -test -f '{{.ImportPath}}: {{join .Deps " "}}' $(PACKAGES) | sed -nE 's/^([^ ]*)\.test: (.* )?ustack\/(bpf|loader)( .*)?$$/\1/p')
OTHERS = $(filter-out $(LOADS_BPF),$(shell go list $(PACKAGES)))
.PHONY: test
test: nodes ## test everything (as root; USTACK_MUST_RUN=1 lets nothing be skipped)
	@$(MAKE) --no-print-directory -k -j 2 test-bpf test-others

.PHONY: test-bpf
test-bpf: ## test the packages that load BPF programs (as root)
	@go test -vet=off -count=1 -timeout 40m -p 1 $(LOADS_BPF)

.PHONY: test-others
test-others: ## test the packages that load no BPF programs
	@go test -vet=off -count=1 -timeout 40m -p 1 $(OTHERS)

.PHONY: test-matrix
test-matrix: nodes ## test every truth on every Node.js version and tier (an hour or two)
	USTACK_MATRIX=1 USTACK_MUST_RUN=1 go test -count=1 -timeout 180m -p 1 ./tools/jsprof ./tools/stopon ./tools/jscore ./tools/nodesnoop ./tools/syscalls ./tools/tcp ./symbolize/elfsym ./symbolize/v8/... ./symbolize/nodejs ./symbolize/nodehttp ./cmd/jscore

.PHONY: test-cpuprof
test-cpuprof: nodes ## compare jsprof with node --cpu-prof on ten npm programs (half an hour)
	USTACK_CPUPROF=1 USTACK_MUST_RUN=1 go test -count=1 -timeout 90m -v -run 'CPUProf' ./tools/jsprof

.PHONY: test-receivers
test-receivers: nodes ## push profiles to OpenTelemetry's Collector and Pyroscope's API; check the manifest (some minutes)
	go -C testdata/kubernetes run . '$(abspath packaging/jsprof-daemonset.yaml)'
	USTACK_RECEIVERS=1 USTACK_MUST_RUN=1 go test -count=1 -timeout 30m -v -run 'Collector|Pyroscope|OneProfile' ./cmd/jsprof

.PHONY: test-releases
test-releases: ## test first, middle and newest release of each Node.js line (half an hour)
	USTACK_RELEASES=1 USTACK_MUST_RUN=1 go test -json -count=1 -timeout 90m -p 1 -run '^TestReleases' $(PACKAGES) | $(WORKS)

.PHONY: test-kernels
test-kernels: nodes ## test on KERNELS (all, or some of 5.10 6.1 6.12 newest) in qemu (a quarter of an hour each; COLUMN=jsprof: one column)
	USTACK_KERNELS='$(KERNELS)' USTACK_COLUMN='$(COLUMN)' USTACK_MUST_RUN=1 go test -json -count=1 -timeout 8h -run '^TestKernels$$' ./testdata/nodetest/kernels | $(WORKS)

.PHONY: works
works: ## write README.md's tables of what works by docs/works.tsv
	@$(WORKS) </dev/null

.PHONY: test-arm64
test-arm64: ## test on arm64, in qemu (an hour and a half; ARM64=short: ten minutes)
	testdata/arm64/run.sh $(or $(ARM64),long)

.PHONY: chaos
chaos: nodes ## kill, stop and starve every process of ours; hostile files, links and clients
	USTACK_CHAOS=1 USTACK_MUST_RUN=1 go test -count=1 -timeout 3h -p 1 -run '^TestChaos' $(PACKAGES)

FUZZTIME ?= 10s

.PHONY: fuzz
fuzz: ## feed made-up bytes to every reader, each for FUZZTIME (10s: a quarter of an hour)
	@failed=0; \
	for folder in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' $$folder/*_test.go); do \
			go test -vet=off -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$folder || failed=1; \
		done; \
	done; \
	exit $$failed

.PHONY: soak
soak: nodes ## take 500 cores of a server under load on each of three Node.js versions
	USTACK_SOAK=1 USTACK_MUST_RUN=1 go test -count=1 -timeout 40m -v -run '^TestServerUnderCores$$' ./tools/core

BENCH ?= .

.PHONY: bench
bench: nodes ## measure accuracy and cost beside perf, bpftrace and others, and write BENCHMARKS.md (BENCH=regexp: some; USTACK_BENCH=full: on every Node.js)
	tables=$$(mktemp -d) && \
	USTACK_BENCH=$${USTACK_BENCH:-long} USTACK_TABLES=$$tables go test -count=1 -timeout 2h -p 1 -run '^$$' -bench '$(BENCH)' $(PACKAGES) && \
	go run ./testdata/nodetest/benchmarks $$tables

.PHONY: demo
demo: build ## profile a sample program: top functions, demo/flame.svg, demo/flame.html
	@mkdir -p demo
	@exec 3< <(exec node testdata/programs/mixed.js); target=$$!; trap 'kill $$target' EXIT; \
	read -r ready <&3; : >demo/log; \
	for file in demo/flame.svg demo/flame.html; do \
		bin/jsprof -p $$target -d $(SECONDS_OF_DEMO) -o $$file 2>>demo/log & writers="$${writers:-} $$!"; \
	done; \
	bin/jsprof -p $$target -d $(SECONDS_OF_DEMO); \
	for writer in $$writers; do wait $$writer || { cat demo/log >&2; exit 1; }; done; \
	echo "Now open demo/flame.svg or demo/flame.html in a browser."

.PHONY: demo-addonlat
demo-addonlat: build $(CACHE)/$(SQLITE) ## what npm's sqlite3 waits for (compiles it once, in some minutes)
	@exec 3< <(exec node testdata/programs/sqlite.js $(CACHE)/$(SQLITE)/node_modules/sqlite3); \
	target=$$!; trap 'kill $$target' EXIT; read -r ready <&3; \
	bin/addonlat -p $$target -d $(SECONDS_OF_DEMO); \
	bin/addonlat -p $$target -d $(SECONDS_OF_DEMO) --by resource --table --unit us

# node-gyp fetches the headers of a node that has none beside it.
$(CACHE)/$(SQLITE):
	@mkdir -p $(CACHE); partial=$$(mktemp -d $(CACHE)/.fill-XXXXXX); trap 'rm -rf $$partial' EXIT; \
	prefix=$$(dirname "$$(dirname "$$(readlink -f "$$(command -v node)")")"); \
	if [ -e "$$prefix/include/node/node.h" ]; then export npm_config_nodedir=$$prefix; fi; \
	echo "Compiling $(SQLITE) in $(CACHE), which takes some minutes."; \
	npm install --no-save --no-audit --no-fund --prefix $$partial $(SQLITE) >$$partial/log 2>&1 || { cat $$partial/log >&2; exit 1; }; \
	chmod 755 $$partial; mv $$partial $@

.PHONY: demo-stopon
demo-stopon: build ## catch a program as it closes a descriptor twice, with a core: demo/core
	@mkdir -p demo; rm -f demo/core; \
	exec 3< <(exec node testdata/programs/trouble.js badclose); target=$$!; trap 'kill $$target' EXIT; \
	read -r ready <&3; node=$$(readlink -f /proc/$$target/exe); \
	exec 4< <(exec bin/stopon -p $$target --syscall close --errno EBADF --gcore=demo/core 2>&1); \
	while IFS= read -r line <&4; do \
		printf '%s\n' "$$line"; \
		case $$line in Watching*) kill -USR2 $$target ;; esac; \
	done; \
	[ -e demo/core ] || exit 1; \
	read -r answer <&3; echo "The program keeps running, and says: $$answer"; \
	if command -v gdb >/dev/null; then \
		echo "The core, in gdb:"; \
		gdb -q -batch -ex 'info registers rip rax' -ex 'backtrace 4' "$$node" demo/core 2>/dev/null | tail -n 7; \
	else \
		echo "Now open demo/core in a debugger."; \
	fi

.PHONY: demo-postmortem
demo-postmortem: build ## find what a server leaks by a core of it: demo/leaky.core
	@mkdir -p demo; rm -f demo/leaky.core; \
	exec 3< <(exec node testdata/programs/leaky.js); target=$$!; trap 'kill $$target' EXIT; \
	read -r ready <&3; \
	bin/stopon -p $$target --now --gcore=demo/leaky.core >/dev/null; \
	for line in 'status' 'findjsobjects ! head -n 7' 'findjsobjects -c Session | jsprint' \
		'findjsobjects -c Session | jsfindrefs -l 3' 'findjsobjects -c Session | jsconstructor | jssource -n 0'; do \
		printf '\n> %s\n' "$$line"; bin/jscore --no-pager demo/leaky.core "$$line"; \
	done; \
	printf '\nNow look yourself: bin/jscore demo/leaky.core\nThe tutorial is in man cmd/jscore/jscore.1, under EXAMPLES.\n'

.PHONY: lint
lint: clang ## check style, imports and go.mod
	@unformatted=$$(go tool gofumpt -l $(GO_DIRS)); \
	if [ -n "$$unformatted" ]; then printf 'not formatted (make fmt):\n%s\n' "$$unformatted" >&2; exit 1; fi
	$(if $(BPF_C),$(CLANG_FORMAT) --dry-run -Werror $(BPF_C))
	go vet $(PACKAGES)
	GOARCH=arm64 go vet $(PACKAGES)
	go tool staticcheck $(PACKAGES)
	@dead=$$(go tool deadcode -filter '^ustack/(loader|symbolize|tools|cmd/internal/cli$$|cmd/[a-z]+$$)' $(COMMANDS:%=./cmd/%)); \
	if [ -n "$$dead" ]; then printf 'called by no tool:\n%s\n' "$$dead" >&2; exit 1; fi
	go run ./cmd/internal/lint
	go mod tidy -diff

.PHONY: fmt
fmt: clang ## format Go and C
	go tool gofumpt -w $(GO_DIRS)
	$(if $(BPF_C),$(CLANG_FORMAT) -i $(BPF_C))

.PHONY: clean
clean: ## remove what was built (not the cache of Node.js versions)
	rm -rf bin demo dist npm/dtrace-provider/prebuilds
