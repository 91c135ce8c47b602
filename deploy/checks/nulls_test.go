package checks

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestNullValues checks that each value of each chart may be null, as an empty key of a file is: the
// chart renders, or a message names the value.
func TestNullValues(t *testing.T) {
	helm := program(t, "helm")
	for chart, flags := range map[string][]string{"elastalloc": nil, "elastalloc-controller": {controllerPool}} {
		t.Run(chart, func(t *testing.T) {
			t.Parallel()
			var values map[string]any
			if err := yaml.Unmarshal(readFile(t, "deploy", "helm", chart, "values.yaml"), &values); err != nil {
				t.Fatal(err)
			}
			for _, key := range keysOf(values, "") {
				arguments := append([]string{"template", "release", "deploy/helm/" + chart, kubeVersion, "--set=" + key + "=null"}, flags...)
				out, err := command(t, helm, arguments...).CombinedOutput()
				name := key[strings.LastIndex(key, ".")+1:]
				if err != nil && (strings.Contains(string(out), "nil pointer") || !strings.Contains(string(out), "missing property '"+name+"'")) {
					t.Errorf("%s=null: %.400s", key, out)
				}
			}
		})
	}
}

// keysOf returns the keys of all values, as --set takes them.
func keysOf(values map[string]any, prefix string) []string {
	var keys []string
	for key, value := range values {
		key = prefix + strings.ReplaceAll(key, ".", `\.`)
		keys = append(keys, key)
		if inner, ok := value.(map[string]any); ok {
			keys = append(keys, keysOf(inner, key+".")...)
		}
	}
	return keys
}
