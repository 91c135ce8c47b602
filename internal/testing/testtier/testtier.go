// Package testtier selects the slow tests. `go test ./...` is the quick tier; a slow one runs
// where the environment variable ELASTALLOC_TESTS names it, as make does. It is no build tag, so
// that every build, vet, lint and refactoring sees the slow tests as well.
package testtier

import (
	"os"
	"slices"
	"strings"
)

// Variable is the environment variable that names the slow tiers to run, with commas
// between them.
const Variable = "ELASTALLOC_TESTS"

// Tier is a set of slow tests.
type Tier string

const (
	// Faults are the tests of the real binary among failing solvers, disks, clients
	// and servers.
	Faults Tier = "faults"
	// Conformance is the conformance suite of every backend in full length.
	Conformance Tier = "conformance"
	// Docs are the commands of the documentation.
	Docs Tier = "docs"
	// Kube are the tests of the charts and of the controller on a real Kubernetes.
	Kube Tier = "kube"
)

// Selected reports whether the tests of the tier run.
func (t Tier) Selected() bool {
	selected := os.Getenv(Variable)
	return slices.Contains(strings.Split(selected, ","), string(t))
}

// Draws returns how many examples a test takes: the full number where the tier is
// selected, otherwise that of the quick tier.
func (t Tier) Draws(quick, full int) int {
	if t.Selected() {
		return full
	}
	return quick
}
