package main

import (
	"regexp"
	"strings"
	"testing"
)

// TestUnit checks that every command that decides uses the name of the unit for nodes, and that JSON and ids do not
// change.
func TestUnit(t *testing.T) {
	request := strings.NewReplacer(`"running"`, `"run-node-7"`, `"queued"`, `"4 nodes"`).Replace(succeed(t, "", "allocate", "--example"))
	node := regexp.MustCompile(`(?i)\bnodes?\b`)
	for _, args := range []string{
		"allocate -f -", "fill-idle -f -", "explain -f -", "explain -f - --job run-node-7",
		"whatif -f - --nodes 4,6", "forecast -f -", "forecast -f - -o svg",
	} {
		fields := strings.Fields(args)
		plain, named := succeed(t, request, fields...), succeed(t, request, append(fields, "--unit", "gpu")...)
		ids := strings.NewReplacer("run-node-7", "ID", "4 nodes ", "ID ", "4 nodes\n",
			"ID\n", "4 nodes<", "ID<", "4 nodes:", "ID:", `"4 nodes"`, "ID", "put 4 nodes", "ID")
		if left := node.FindString(ids.Replace(named)); left != "" {
			t.Errorf("%s --unit gpu prints %q:\n%s", args, left, named)
		}
		if !strings.Contains(strings.ToLower(named), "gpus") {
			t.Errorf("%s --unit gpu does not print the unit:\n%s", args, named)
		}
		if strings.Count(plain, "run-node-7") != strings.Count(named, "run-node-7") {
			t.Errorf("%s --unit gpu changes an id:\n%s", args, named)
		}
		if strings.Contains(strings.ToLower(plain), "gpu") {
			t.Errorf("%s prints a unit that was not set:\n%s", args, plain)
		}
	}
	plain, named := succeed(t, request, "fill-idle", "-f", "-", "-o", "json"),
		succeed(t, request, "fill-idle", "-f", "-", "-o", "json", "--unit", "gpu")
	if plain != named {
		t.Errorf("the unit changes JSON:\n%s\n%s", plain, named)
	}
	for _, bad := range []string{"", "g p u", "gpu1", strings.Repeat("x", 21)} {
		_, stderr, status := runWith(t, nil, request, "allocate", "-f", "-", "--unit", bad)
		if status != 2 || !strings.Contains(stderr, "must be a word") {
			t.Errorf("--unit %q: exit status %d, %q", bad, status, stderr)
		}
	}
}
