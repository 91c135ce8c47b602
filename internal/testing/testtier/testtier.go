// Package testtier selects slow tests. `go test ./...` runs the quick tier. Slow tiers run if the
// environment variable ELASTALLOC_TESTS names them. A tier is not a build tag, so that every build, vet
// and lint includes the slow tests.
package testtier

import (
	"os"
	"slices"
	"strings"
)

// Variable is the environment variable with the slow tiers to run, separated by commas.
const Variable = "ELASTALLOC_TESTS"

// Tier is a set of slow tests.
type Tier string

const (
	// Faults has the tests of the real binary with failing solvers, disks, clients and servers.
	Faults Tier = "faults"
	// Conformance has the conformance suite of every backend and all property tests in full length.
	Conformance Tier = "conformance"
	// Docs has the tests of the commands in the documentation.
	Docs Tier = "docs"
	// Kube has the tests of the charts and of the controller on a real Kubernetes.
	Kube Tier = "kube"
)

// Selected reports whether the tests of the tier run.
func (t Tier) Selected() bool {
	selected := os.Getenv(Variable)
	return slices.Contains(strings.Split(selected, ","), string(t))
}

// Examples returns the number of random examples of a test: full if the tier is selected, otherwise quick.
func (t Tier) Examples(quick, full int) int {
	if t.Selected() {
		return full
	}
	return quick
}
