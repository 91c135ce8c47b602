package kinds_test

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/world"
)

// read returns the text of a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestVersions checks that the documentation names the releases that `make check-kube` builds, that the table of kinds
// names the same releases, and that the operator of every kind is among them.
func TestVersions(t *testing.T) {
	t.Parallel()
	programs, script, client := read(t, "scripts/kube/go.mod"), read(t, "scripts/kube.sh"), read(t, "kube/go.mod")
	table := "| program | release | end-to-end tests |\n|---|---|---|\n"
	tested := map[string]bool{"Job": true} // by Kubernetes
	for _, row := range []struct{ name, in, module, tests, kind string }{
		{"Kubernetes", programs, "k8s.io/kubernetes", "all", ""},
		{"etcd", programs, "go.etcd.io/etcd/server/v3", "all", ""},
		{"kwok", programs, "sigs.k8s.io/kwok", "all", ""},
		{"JobSet", programs, "sigs.k8s.io/jobset", "TestDecisions, TestOperators/TrainJob, TestPodsThatStartLater", "JobSet"},
		{"KubeRay", script, "github.com/ray-project/kuberay/ray-operator",
			"TestOperators/RayCluster, TestKueue/RayCluster, TestKueue/RayJob", "RayCluster"},
		{"training-operator", script, "github.com/kubeflow/training-operator", "TestOperators/PyTorchJob", "PyTorchJob"},
		{"Kubeflow Trainer", script, "github.com/kubeflow/trainer/v2", "TestOperators/TrainJob, TestPodsThatStartLater", "TrainJob"},
		{"Kueue", script, "sigs.k8s.io/kueue", "TestKueue", ""},
		{"client libraries (client-go)", client, "k8s.io/client-go", "all", ""},
	} {
		found := regexp.MustCompile(`(?m)^(?:\S+ )?\s*` + regexp.QuoteMeta(row.module) + `[ @]v([0-9.]+)`).FindStringSubmatch(row.in)
		if found == nil {
			t.Fatalf("no release of %s is built", row.module)
		}
		table += fmt.Sprintf("| %s | %s | %s |\n", row.name, found[1], row.tests)
		tested[row.kind] = true
		for _, k := range kinds.All() {
			named := regexp.MustCompile(`[0-9]+\.[0-9]+(\.[0-9]+)?`).FindString(k.Support.Versions)
			if k.Name == row.kind && !strings.HasPrefix(found[1]+".", named+".") {
				t.Errorf("the table of kinds lists %s as tested with %s; it was tested with %s", k.Name, named, found[1])
			}
		}
	}
	for _, name := range kinds.Names() {
		if !tested[name] {
			t.Errorf("TestVersions has no row of the operator of a %s", name)
		}
	}
	if !strings.Contains(read(t, "docs/reference/kubernetes.md"), "\n"+table+"\n") {
		t.Errorf("docs/reference/kubernetes.md lacks the table\n%s", table)
	}
}

// TestWriteProtocol checks that the page about the write protocol names all that is written on jobs, and every kind.
func TestWriteProtocol(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/reference/kubernetes-write-protocol.md")
	names := []string{world.TargetAnnotation, world.DecisionAnnotation}
	for field := range reflect.TypeFor[world.Record]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	for _, name := range names {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/reference/kubernetes-write-protocol.md lacks `%s`", name)
		}
	}
	for _, name := range kinds.Names() {
		if !regexp.MustCompile(`(?m)^\| .*\b` + name + `\b.* \|`).MatchString(page) {
			t.Errorf("docs/reference/kubernetes-write-protocol.md: no row is about a %s", name)
		}
	}
}
