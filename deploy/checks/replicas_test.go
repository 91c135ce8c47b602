package checks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUpgradeKeepsServers checks that neither an upgrade nor turning autoscaling on takes
// away servers that run, and that a fresh install has its minimum at once. The API server
// is one that knows a single deployment.
func TestUpgradeKeepsServers(t *testing.T) {
	helm := program(t, "helm")
	for name, test := range map[string]struct {
		present *int32 // the replicas of the existing deployment, nil without one
		flags   []string
		want    int32
	}{
		"fresh":                                  {nil, nil, 3},
		"fresh, with a larger minimum":           {nil, []string{"--set=autoscaling.minReplicas=5"}, 5},
		"fresh, without autoscaling":             {nil, []string{"--set=autoscaling.enabled=false"}, 3},
		"autoscaling is turned on":               {new(int32(4)), nil, 4},
		"an upgrade after the autoscaler's":      {new(int32(9)), nil, 9},
		"below the minimum":                      {new(int32(1)), nil, 3},
		"autoscaling is off, with more replicas": {new(int32(2)), []string{"--set=autoscaling.enabled=false,replicas=6"}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(apiServer(t, test.present))
			defer server.Close()
			config := filepath.Join(t.TempDir(), "kubeconfig")
			content := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "test",
				"clusters": [{"name": "test", "cluster": {"server": %q}}],
				"contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
				"users": [{"name": "test", "user": {}}]}`, server.URL)
			if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{
				"template", "release", "deploy/helm/elastalloc", "--namespace=somewhere", kubeVersion, "--dry-run=server", "--kubeconfig=" + config,
			}
			rendered := decode(t, output(t, helm, append(args, test.flags...)...))
			if got := rendered.deployments[0].Spec.Replicas; got == nil || *got != test.want {
				t.Errorf("the deployment has %v servers; want %d", got, test.want)
			}
		})
	}
}

// apiServer responds to the requests with which helm looks up a deployment.
func apiServer(t *testing.T, replicas *int32) http.Handler {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(path string, object any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(object); err != nil {
				t.Error(err)
			}
		})
	}
	apps := metav1.GroupVersionForDiscovery{GroupVersion: "apps/v1", Version: "v1"}
	answer("/version", map[string]string{"major": "1", "minor": "33", "gitVersion": "v1.33.0"})
	answer("/api", metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	answer("/apis", metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"},
		Groups:   []metav1.APIGroup{{Name: "apps", Versions: []metav1.GroupVersionForDiscovery{apps}, PreferredVersion: apps}},
	})
	answer("/api/v1", metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "v1"})
	answer("/apis/apps/v1", metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "apps/v1",
		APIResources: []metav1.APIResource{
			{Name: "deployments", SingularName: "deployment", Namespaced: true, Kind: "Deployment", Verbs: []string{"get"}},
		},
	})
	if replicas != nil {
		answer("/apis/apps/v1/namespaces/somewhere/deployments/release", &appsv1.Deployment{
			TypeMeta:   metav1.TypeMeta{Kind: "Deployment", APIVersion: "apps/v1"},
			ObjectMeta: metav1.ObjectMeta{Name: "release", Namespace: "somewhere"},
			Spec:       appsv1.DeploymentSpec{Replicas: replicas},
		})
	}
	return mux
}
