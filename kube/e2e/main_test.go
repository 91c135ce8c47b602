//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/internal/testing/testtier"
	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
	"github.com/elastalloc/elastalloc/kube/kinds"
)

// TestMain sets these variables for all tests. Each test has its own pool of nodes and namespace. Tests do not run in
// parallel.
var (
	kube   *cluster.Cluster
	binary string
	root   string
)

// release is the name of the release in apply mode and of its service account. recommender is the name of the release in
// recommend mode. Both are in the namespace elastalloc.
const (
	namespace   = "elastalloc"
	release     = "elastalloc-controller"
	recommender = "recommender"
)

func TestMain(m *testing.M) {
	if !testtier.Kube.Selected() {
		fmt.Println("skipped: `make check-kube` runs these")
		os.Exit(0)
	}
	os.Exit(run(m))
}

// run runs the tests, stops all programs, and returns the exit status.
func run(m *testing.M) int {
	directory, err := os.MkdirTemp("", "elastalloc-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(directory)
	if err := prepare(context.Background(), directory); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer kube.Stop()
	return m.Run()
}

// prepare builds the controller, starts the cluster and installs the chart.
func prepare(ctx context.Context, directory string) (err error) {
	if root, err = filepath.Abs("../.."); err != nil {
		return err
	}
	binary = filepath.Join(directory, "elastalloc-controller")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "../cmd/elastalloc-controller")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	// TestGang needs PodGroups. The feature gates of other programs are not set, so that no other test is affected.
	kube, err = cluster.Start(ctx, filepath.Join(root, ".tools", "kube"), directory,
		"--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1alpha2=true")
	if err != nil {
		return fmt.Errorf("%w\n`make kube` builds the programs of the cluster", err)
	}
	defer func() {
		if err != nil {
			kube.Stop()
		}
	}()
	if _, err := startOperator(ctx, kube, jobSet); err != nil {
		return err
	}
	if err := kube.AddNodes(ctx, "system", 3); err != nil {
		return err
	}
	return errors.Join(
		install(ctx, release, "--set=mode=apply"),
		install(ctx, recommender, "--set=mode=recommend"),
	)
}

// pools are the pools of all tests except TestOperators. An account can write only to jobs in the pools of its release.
var pools = []string{
	"crash", "restarted", "two", "decisions", "recommend", "rights", "storm", "thousand", "fixed", "elastic",
	"tenants", "unused", "scaling", "gpus", "gpu-groups", typedPool, "least-allocated",
	"most-allocated", "gang", "torchrun", "later-jobset", "later-trainjob", "index", "webhook", kueue,
}

// install installs the chart of the controller for all kinds of jobs and all pools.
func install(ctx context.Context, name string, flags ...string) error {
	all, named := slices.Clone(pools), []string(nil)
	for name := range operatedKinds {
		all = append(all, operatedPool(name))
	}
	for _, pool := range all {
		types := ""
		if pool == typedPool || pool == "rights" {
			types = `,"nodeTypes":[{"name":"a100","labels":{"gpu":"a100"}},{"name":"h100","labels":{"gpu":"h100"}}]`
		}
		named = append(named, fmt.Sprintf(`{"name":%q,"nodeSelector":{"pool":%[1]q}%s}`, pool, types))
	}
	return helm(ctx, append([]string{
		"install", name, "deploy/helm/elastalloc-controller", "--namespace", namespace, "--create-namespace",
		`--set-json=config={"kinds":["` + strings.Join(kinds.Names(), `","`) + `"],"kueue":true,"pools":[` + strings.Join(named, ",") + `]}`,
	}, flags...)...)
}

// helm runs helm at the root of the checkout.
func helm(ctx context.Context, args ...string) error {
	path := filepath.Join(root, ".tools", "bin", "helm")
	command := exec.CommandContext(ctx, path, append(args, "--kubeconfig", kube.Kubeconfig)...)
	command.Dir = root
	var stderr strings.Builder
	command.Stderr = &stderr
	if output, err := command.Output(); err != nil || stderr.Len() > 0 {
		return fmt.Errorf("helm %s: %w: %s%s", strings.Join(args, " "), err, output, &stderr)
	}
	return nil
}
