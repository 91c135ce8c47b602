package world_test

import (
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/elastalloc/elastalloc/kube/config"
	"github.com/elastalloc/elastalloc/kube/kinds"
	"github.com/elastalloc/elastalloc/kube/world"
)

// TestWholeClusterExample checks the manifests in examples/whole-cluster: the configuration is valid, with and without the
// groups that Kueue replaces, and the annotations of the jobs are valid in the pool.
func TestWholeClusterExample(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile("../../examples/whole-cluster/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var values struct{ Config map[string]any }
	if err := yaml.Unmarshal([]byte(read("values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	parse := func() *config.Config {
		text, err := yaml.Marshal(values.Config)
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Parse(text, kinds.Names())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	pool := parse().Pools[0]
	pods := make(map[string]int64) // units per pod by job
	for text := range strings.SplitSeq(read("jobs.yaml"), "\n---\n") {
		job := fromYAML(t, text)
		shape, err := kinds.Named([]string{"Job"})[0].Read(job, nil, "nvidia.com/gpu")
		if err != nil {
			t.Fatal(err)
		}
		annotations, err := world.ParseAnnotations(job.GetAnnotations(), shape.Min, shape.Max, shape.Multiple)
		if err != nil {
			t.Error(err)
		}
		for nodeType := range annotations.TypeSpeeds {
			if !strings.Contains(strings.Join(pool.TypeNames(), " "), nodeType) {
				t.Errorf("%s has speeds on %s", job.GetName(), nodeType)
			}
		}
		if pool.GroupOf(job.GetNamespace()) == nil || job.GetLabels()[world.PoolLabel] != pool.Name {
			t.Errorf("%s is in no group of the pool", job.GetName())
		}
		pods[job.GetName()] = shape.Unit
	}
	if pods["segmenter"] != 1 || pods["llm"] != 8 || len(pods) != 2 {
		t.Errorf("the units per pod are %v", pods)
	}
	values.Config["kueue"] = true
	delete(values.Config["pools"].([]any)[0].(map[string]any), "groups")
	if c := parse(); !c.Kueue || len(c.Pools[0].Groups) > 0 {
		t.Errorf("the configuration with Kueue is %+v", c)
	}
}
