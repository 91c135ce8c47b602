package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/lab/catalog"
	"github.com/elastalloc/elastalloc/lab/external"
)

// describePolicies lists the policies for the help.
func describePolicies() string {
	var rows [][2]string
	for _, policy := range catalog.All() {
		rows = append(rows, [2]string{policy.Name, policy.Description})
	}
	return listing(rows)
}

// listing formats names and descriptions for the help.
func listing(rows [][2]string) string {
	t := cli.Screen{Width: cli.DefaultWidth}.NewTable()
	for _, row := range rows {
		t.AddRow(cli.Plain, " "+row[0], row[1])
	}
	return strings.TrimRight(t.String(), "\n")
}

// findPolicies returns the policies of --policy and reports every invalid name.
func findPolicies(names []string, addf func(format string, args ...any)) []catalog.Policy {
	if len(names) == 0 {
		addf("--policy is empty")
	}
	var policies []catalog.Policy
	for i, name := range names {
		policy, err := findPolicy(name)
		if err != nil {
			addf("--policy: %v", err)
		}
		if slices.Contains(names[:i], name) {
			addf("--policy names %q twice", name)
		}
		policies = append(policies, policy)
	}
	return policies
}

// findPolicy returns a built-in policy, or the policy of a program or a service.
func findPolicy(name string) (catalog.Policy, error) {
	if command, found := strings.CutPrefix(name, external.CommandPrefix); found {
		return external.Command(command, os.Stderr) //nolint:forbidigo // The messages of the program are the user's.
	}
	target, found := strings.CutPrefix(name, external.ServicePrefix)
	if !found {
		return catalog.Find(name)
	}
	if target == "" {
		return catalog.Policy{}, fmt.Errorf("%s has no address; must be %sHOST:PORT", name, external.ServicePrefix)
	}
	return external.Policy(name, "the service at "+target+", in plain text", func() (external.Caller, func() error, error) {
		c, err := client.New(target)
		if err != nil {
			return nil, nil, err
		}
		return c.Allocate, c.Close, nil
	}), nil
}

// newAllocator returns an allocator with the backends of policies. It returns an error if the program of a
// backend is missing.
func newAllocator(policies []catalog.Policy, programs cli.Programs) (*elastalloc.Allocator, error) {
	names := elastalloc.DefaultBackends()
	for _, policy := range policies {
		for _, name := range cli.BackendsFor(policy.Options.Backend) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	allocator, err := elastalloc.New(elastalloc.Options{Backends: names, Programs: programs, MaxJobs: math.MaxInt32})
	if err != nil {
		return nil, err
	}
	for _, backend := range allocator.Backends() {
		if backend.Missing != nil {
			return nil, cli.Failed(fmt.Errorf("backend %s: %w", backend.Name, backend.Missing))
		}
	}
	return allocator, nil
}
