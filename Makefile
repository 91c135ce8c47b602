# `make` lists the targets. A machine needs Go and make; what else a target needs,
# `make tools` builds at its pinned version into .tools/bin.

GO      ?= go
TOOLS   ?= $(CURDIR)/.tools/bin
BIN     := bin/elastalloc

# How long each fuzzer runs in `make fuzz`: a duration, or a number of inputs as 1000x.
FUZZ_TIME ?= 30s
# How long each measurement of `make load` takes.
LOAD_TIME ?= 10s
# Benchmarks that `make bench` runs, and how often.
BENCH       ?= .
BENCH_COUNT ?= 6
# How long each soak of `make faults` and `make soak` puts load on a server.
SOAK ?= 10m

# Only a test that hangs takes that long, even on a busy machine.
TEST_TIMEOUT := 60m
# How often `make conformance` draws for a property. RAPID_SEED=1 has the same drawn each time.
CHECKS ?= 2000
# The modules that lint, race, conformance and fuzz are about, as far as it concerns them.
MODULES ?= . lab kube deploy/checks
define newline


endef

# The packages with property tests or longer tests of the conformance tier, and those that start goroutines, of the root
# module and of the lab.
packages_with     = $(shell cd $(2) && grep -rlE --include='*.go' --exclude-dir=kube --exclude-dir=deploy --exclude-dir=lab --exclude-dir='.?*' '$(1)' . | xargs -n 1 dirname | sort -u)
PROPERTY_PACKAGES = $(call packages_with,pgregory.net/rapid|Conformance\.,$(1))
RACE_PACKAGES     = $(call packages_with,^\s+go |\.Go.func|parallel\.Do,$(1))

# Where `make python` puts the wheel.
PYTHON_OUT ?= bin

# The tools, each as name, package and version. A stamp per version makes
# installing them idempotent and a changed version effective.
buf                 := github.com/bufbuild/buf/cmd/buf@v1.75.0
protoc-gen-go       := google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
protoc-gen-go-grpc  := google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
golangci-lint       := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
grpcurl             := github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4
helm                := helm.sh/helm/v3/cmd/helm@v3.22.0
ghz                 := github.com/bojand/ghz/cmd/ghz@v0.120.0

TOOL_NAMES := buf protoc-gen-go protoc-gen-go-grpc golangci-lint grpcurl helm ghz
stamp       = $(TOOLS)/.$(1)@$(lastword $(subst @, ,$($(1))))

.DEFAULT_GOAL := help
.PHONY: help
help: ## Show this list.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: build ## Start a server, have it decide a real-sized snapshot, show the decision, stop it.
	@scripts/demo.sh $(BIN) examples/busy.json

# The tests build the binary as it is shipped, without cgo. With cgo, its packages that use net
# would be compiled a second time for the tests.
test test-root test-lab faults conformance docs: export CGO_ENABLED := 0

.PHONY: test
test: test-root test-lab ## Run the tests; the slow ones are those of faults and conformance.

# `make lint` runs vet.
.PHONY: test-root
test-root: note-solvers ## Test the root module: the service, the solvers and the simulator.
	$(GO) test -vet=off -timeout $(TEST_TIMEOUT) ./...

# A module of its own, because of the plotting library.
.PHONY: test-lab
test-lab: note-solvers ## Test lab/: elastalloc-lab and what only it needs.
	cd lab && $(GO) test -vet=off -timeout $(TEST_TIMEOUT) ./...

# A module of its own, because of Kubernetes' dependencies.
.PHONY: test-kube
test-kube: ## Test the controller in kube/, without a cluster; with Prometheus where it is installed.
	cd kube && $(GO) test -timeout $(TEST_TIMEOUT) ./...

.PHONY: faults
faults: note-solvers ## Test the server among failing solvers, disks, clients and servers.
	ELASTALLOC_TESTS=faults $(GO) test -count=1 -parallel 8 -timeout $(TEST_TIMEOUT) ./cmd/elastalloc/faults -soak=$(SOAK)

.PHONY: conformance
conformance: note-solvers ## Run the conformance suite of every backend and the property tests in full length.
	$(foreach module,$(filter . lab,$(MODULES)),cd $(module) && ELASTALLOC_TESTS=conformance RAPID_CHECKS=$(CHECKS) $(GO) test -count=1 -timeout $(TEST_TIMEOUT) $(call PROPERTY_PACKAGES,$(module))$(newline)	)

.PHONY: docs
docs: $(call stamp,grpcurl) ## Run the commands of the documentation and compare what it shows with what they print.
	PATH="$(TOOLS):$$PATH" ELASTALLOC_TESTS=docs $(GO) test -count=1 -timeout $(TEST_TIMEOUT) ./docs

# Tests of CBC and HiGHS are skipped where they are not installed.
.PHONY: note-solvers
note-solvers:
	@PATH="$(TOOLS):$$PATH"; for solver in cbc highs; do command -v $$solver >/dev/null || \
		echo "note: $$solver is not installed, so its tests are skipped; make solvers installs it"; done

.PHONY: solvers
solvers: ## Install CBC and HiGHS, for the backends cbc and highs (Debian, Ubuntu).
	scripts/solvers.sh

.PHONY: build
build: ## Build the static binaries bin/elastalloc and bin/elastalloc-lab.
	CGO_ENABLED=0 $(GO) build -buildvcs=auto -trimpath -ldflags "-s -w" -o $(dir $(BIN)) ./cmd/elastalloc
	cd lab && CGO_ENABLED=0 $(GO) build -buildvcs=auto -trimpath -ldflags "-s -w" -o $(abspath $(dir $(BIN)))/ ./cmd/elastalloc-lab

.PHONY: controller
controller: ## Build the static binary bin/elastalloc-controller.
	@cd kube && CGO_ENABLED=0 ../scripts/compile.sh controller $(GO) build -v -buildvcs=auto -trimpath -ldflags "-s -w" -o ../bin/elastalloc-controller ./cmd/elastalloc-controller

.PHONY: python
python: ## Build the Python package as a wheel into PYTHON_OUT (Debian, Ubuntu).
	scripts/python.sh $(PYTHON_OUT)

# Debian's Python has the package python3-grpcio, which `make python` installs.
.PHONY: check-testbed
check-testbed: build ## Run elastic jobs of sleeping processes under a server, and compare with the simulator.
	scripts/python.sh bin
	cd examples && export PYTHONPATH="$$(echo ../bin/elastalloc-*.whl):." && \
		/usr/bin/python3 -B -W ignore::ResourceWarning -m unittest testbed.testbed_test && /usr/bin/python3 -B -m testbed check

.PHONY: race
race: ## Run the tests of what starts goroutines under the race detector; needs a C compiler.
	$(foreach module,$(filter . lab,$(MODULES)),cd $(module) && RAPID_CHECKS=20 CGO_ENABLED=1 $(GO) test -race -short -timeout $(TEST_TIMEOUT) $(call RACE_PACKAGES,$(module))$(newline)	)
	$(if $(filter kube,$(MODULES)),cd kube && RAPID_CHECKS=20 CGO_ENABLED=1 $(GO) test -race -short -timeout $(TEST_TIMEOUT) ./...)

.PHONY: clock-jump
clock-jump: ## Set the clock far forward and back under a running server, in a virtual machine.
	scripts/clock-jump.sh

.PHONY: bench
bench: ## Run the benchmarks BENCH, BENCH_COUNT times, for benchstat.
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCH_COUNT) ./...

.PHONY: load
load: build $(call stamp,ghz) ## Measure a server under load with ghz.
	@scripts/load.sh $(BIN) $(TOOLS)/ghz $(LOAD_TIME)

.PHONY: fuzz
fuzz: ## Run every fuzzer for FUZZ_TIME.
	scripts/fuzz.sh $(FUZZ_TIME) $(filter . lab,$(MODULES))

.PHONY: soak
soak: ## Put a mixed load on a server for SOAK, then a hostile one; it has to stay as small as it was.
	ELASTALLOC_TESTS=faults $(GO) test -run '^TestSoak' -parallel 1 -v -timeout 0 ./cmd/elastalloc/faults -soak=$(SOAK)

.PHONY: lint
lint: $(call stamp,golangci-lint) $(call stamp,buf) ## Lint the Go code and the API.
	$(foreach module,$(MODULES),cd $(module) && $(TOOLS)/golangci-lint run --allow-parallel-runners$(newline)	)
	$(TOOLS)/buf lint
	$(TOOLS)/buf format --diff --exit-code

.PHONY: generate
generate: $(call stamp,buf) $(call stamp,protoc-gen-go) $(call stamp,protoc-gen-go-grpc) ## Generate the Go code and the reference of the API, docs/reference/command-line.md and NOTICE.
	PATH="$(TOOLS):$$PATH" $(TOOLS)/buf generate
	scripts/flags.sh > docs/reference/command-line.md
	scripts/notice.sh > NOTICE

.PHONY: check-generated
check-generated: $(call stamp,buf) $(call stamp,protoc-gen-go) $(call stamp,protoc-gen-go-grpc) ## Fail if a generated file is stale.
	PATH="$(TOOLS):$$PATH" scripts/check-generated.sh $(TOOLS)/buf

.PHONY: breaking
breaking: $(call stamp,buf) ## Fail where the API breaks what the last release promised.
	scripts/breaking.sh $(TOOLS)/buf

.PHONY: site
site: ## Build the documentation as a static site into bin/site and check its links (Debian, Ubuntu).
	rm -rf bin/site
	scripts/site.sh bin/site

# The browser of `make pictures`. The tests compare the page with the one that the picture was made of.
CHROMIUM ?= chromium

.PHONY: pictures
pictures: ## Make the picture of the status page in the documentation, with the browser CHROMIUM.
	$(GO) test -count=1 -run '^TestPicture$$' ./server/internal/status -browser=$(CHROMIUM)

.PHONY: prometheus
prometheus: ## Install Prometheus into .tools, for tests (Debian, Ubuntu).
	scripts/prometheus.sh

.PHONY: check-deploy
check-deploy: prometheus $(call stamp,helm) ## Check deploy/: chart, manifests, rules and dashboard, against a real Prometheus.
	cd deploy/checks && $(GO) mod verify && $(GO) mod tidy -diff && \
		PATH="$(TOOLS):$$PATH" $(GO) test -count=1 -timeout $(TEST_TIMEOUT) ./...

.PHONY: kube
kube: ## Build the programs of a Kubernetes into .tools/kube: 9 minutes once, on two cores.
	scripts/kube.sh .tools/kube with-operators

.PHONY: check-kube
check-kube: kube $(call stamp,helm) ## Test the charts and the controller on a real Kubernetes, and a torchrun where PyTorch is.
	cd kube && ELASTALLOC_TESTS=kube $(GO) test -count=1 -timeout $(TEST_TIMEOUT) ./e2e

# The trace whose first day `make replay-kube` replays, on how many nodes and in what time.
TRACE ?= examples/trace.csv
NODES ?= 40
DAY   ?= 10m

.PHONY: replay-kube
replay-kube: kube prometheus $(call stamp,helm) ## Replay a day of TRACE on a real Kubernetes in DAY: elastic beside fixed sizes.
	cd kube && ELASTALLOC_TESTS=kube $(GO) test -count=1 -v -timeout 0 -run '^TestReplay$$' ./e2e \
		-replay=$(abspath $(TRACE)) -replay-nodes=$(NODES) -replay-day=$(DAY)

# Helm takes 250 CPU seconds to build: one that is installed will do.
.PHONY: sandbox
sandbox: $(if $(shell command -v helm),,$(call stamp,helm)) ## Run a Kubernetes of 16 simulated GPU nodes until interrupted, to try the controller.
	scripts/kube.sh .tools/kube
	cd kube && $(GO) run ./cmd/kube-sandbox -programs ../.tools/kube

.PHONY: release
release: $(call stamp,helm) ## Build the archives, images, charts, bills of materials and checksums of a release into dist/.
	rm -rf dist
	HELM=$(TOOLS)/helm scripts/release.sh dist

.PHONY: check-release
check-release: $(call stamp,helm) ## Build a release twice and compare the two, byte for byte.
	HELM=$(TOOLS)/helm scripts/check-release.sh

.PHONY: tools
tools: $(foreach tool,$(TOOL_NAMES),$(call stamp,$(tool))) ## Install the pinned tools into .tools/bin.

.PHONY: clean
clean: ## Remove what was built; the tools stay.
	rm -rf bin dist

define install-tool
$(call stamp,$(1)):
	@mkdir -p $$(TOOLS) && rm -f $$(TOOLS)/.$(1)@*
	@GOBIN=$$(TOOLS) scripts/compile.sh $(1) $$(GO) install -v $$($(1))
	@touch $$@
endef
$(foreach tool,$(TOOL_NAMES),$(eval $(call install-tool,$(tool))))
