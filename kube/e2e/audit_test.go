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

// auditedWrite is a write of a controller in the audit log of the API server.
type auditedWrite struct {
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

// auditLength returns the current length of the audit log.
func auditLength(t *testing.T) int64 {
	t.Helper()
	info, err := os.Stat(kube.AuditLog)
	must(t, err)
	return info.Size()
}

// writesSince returns the writes of an account after a position in the audit log.
func writesSince(t *testing.T, from int64, account string) []auditedWrite {
	t.Helper()
	file, err := os.Open(kube.AuditLog)
	must(t, err)
	defer file.Close()
	_, err = file.Seek(from, io.SeekStart)
	must(t, err)
	var all []auditedWrite
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all // The last line is incomplete.
		}
		must(t, err)
		var w auditedWrite
		if json.Unmarshal(line, &w) != nil {
			continue // The API server was killed while it wrote this line.
		}
		if w.User.Username == "system:serviceaccount:"+namespace+":"+account {
			all = append(all, w)
		}
	}
}

// paths returns the paths that a JSON patch or a merge patch writes.
func (w auditedWrite) paths(t *testing.T) []string {
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

// checkWrites fails the test if a controller wrote, or tried to write, objects or fields that it must not. It returns
// the number of writes of jobs.
func checkWrites(t *testing.T, from int64, account, pool string) int {
	t.Helper()
	allowed := []string{
		"/metadata/uid", "/metadata/resourceVersion", // preconditions
		"/metadata/annotations/elastalloc.dev~1target", "/metadata/annotations/elastalloc.dev~1decision",
	}
	if account != recommender {
		allowed = append(allowed, "/spec/suspend", "/spec/parallelism", "/spec/completions",
			"/spec/replicatedJobs/0/template/spec/parallelism", "/spec/replicatedJobs/0/template/spec/completions",
			"/spec/workerGroupSpecs/0/replicas", "/spec/pytorchReplicaSpecs/Worker/replicas", "/spec/runPolicy/suspend")
	}
	if pool == typedPool || pool == kueue { // Kueue selects the nodes of its jobs.
		allowed = append(allowed, "/metadata/annotations/elastalloc.dev~1target-type")
	}
	if pool == typedPool {
		allowed = append(allowed, "/spec/template/spec/nodeSelector",
			"/spec/replicatedJobs/0/template/spec/template/spec/nodeSelector")
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
			// An API server that has just started returns this error until it has read the permissions.
			starting := func(right string) bool { return strings.Contains(w.ResponseStatus.Message, right) }
			if !slices.ContainsFunc([]string{`cannot patch resource "jobs"`, `cannot create resource "events"`}, starting) {
				t.Errorf("%s was rejected: %s", what, w.ResponseStatus.Message)
			}
			continue // It had no effect.
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
			t.Errorf("it must not write: %s", what)
		}
	}
	return writes
}
