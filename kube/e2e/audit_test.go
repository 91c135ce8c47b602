//go:build linux

package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/elastalloc/elastalloc/kube/kinds"
)

// written is a write of a controller, as the API server's audit log has it.
type written struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"responseStatus"`
	RequestObject json.RawMessage `json:"requestObject"`
}

// auditLength returns where the audit log ends now.
func auditLength(t *testing.T) int64 {
	t.Helper()
	info, err := os.Stat(kube.AuditLog)
	must(t, err)
	return info.Size()
}

// writesSince returns what an account wrote since the audit log was so long.
func writesSince(t *testing.T, from int64, account string) []written {
	t.Helper()
	file, err := os.Open(kube.AuditLog)
	must(t, err)
	defer file.Close()
	_, err = file.Seek(from, io.SeekStart)
	must(t, err)
	var all []written
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all // The last one is being written.
		}
		must(t, err)
		var w written
		if json.Unmarshal(line, &w) != nil {
			continue // The API server was killed while it wrote this.
		}
		if w.User.Username == "system:serviceaccount:"+namespace+":"+account {
			all = append(all, w)
		}
	}
}

// paths returns what a patch of JSON or a merge patch writes to.
func (w written) paths(t *testing.T) []string {
	t.Helper()
	var operations []struct{ Path string }
	if json.Unmarshal(w.RequestObject, &operations) == nil {
		var paths []string
		for _, o := range operations {
			paths = append(paths, o.Path)
		}
		return paths
	}
	var merge any
	must(t, json.Unmarshal(w.RequestObject, &merge))
	return leaves("", merge)
}

func leaves(at string, value any) []string {
	object, ok := value.(map[string]any)
	if !ok {
		return []string{at}
	}
	var all []string
	for key, value := range object {
		all = append(all, leaves(at+"/"+strings.ReplaceAll(key, "/", "~1"), value)...)
	}
	return all
}

// checkWrites fails the test where a controller wrote what it should not, or tried to. It
// returns how many writes of jobs there were.
func checkWrites(t *testing.T, from int64, account, pool string) int {
	t.Helper()
	allowed := []string{
		"/metadata/uid", "/metadata/resourceVersion", // The preconditions.
		"/metadata/annotations/elastalloc.dev~1target", "/metadata/annotations/elastalloc.dev~1decision",
	}
	if account != recommender {
		allowed = append(allowed, "/spec/suspend", "/spec/parallelism", "/spec/completions",
			"/spec/replicatedJobs/0/template/spec/parallelism", "/spec/replicatedJobs/0/template/spec/completions",
			"/spec/workerGroupSpecs/0/replicas", "/spec/pytorchReplicaSpecs/Worker/replicas", "/spec/runPolicy/suspend")
	}
	var resources []string
	for _, name := range kinds.Names() {
		resources = append(resources, resourceOf(name).Resource)
	}
	writes := 0
	for _, w := range writesSince(t, from, account) {
		what := w.Verb + " " + w.ObjectRef.Resource + " " + w.ObjectRef.Namespace + "/" + w.ObjectRef.Name
		switch w.ResponseStatus.Code {
		case 401, 403, 422:
			// An API server that has just begun answers so until it has read the rights.
			if !strings.Contains(w.ResponseStatus.Message, `cannot patch resource "jobs"`) {
				t.Errorf("%s was refused: %s", what, w.ResponseStatus.Message)
			}
			continue // It was not even read.
		}
		switch resource := w.ObjectRef.Resource; {
		case resource == "events" && (w.Verb == "create" || w.Verb == "patch"):
		case resource == "leases" && w.ObjectRef.Namespace == namespace:
		case slices.Contains(resources, resource) && w.Verb == "patch" && w.ObjectRef.Namespace == pool && w.ObjectRef.Subresource == "":
			writes++
			for _, path := range w.paths(t) {
				if !slices.Contains(allowed, path) {
					t.Errorf("%s writes to %s", what, path)
				}
			}
		default:
			t.Errorf("it wrote: %s", what)
		}
	}
	return writes
}
