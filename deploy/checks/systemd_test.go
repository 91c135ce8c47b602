package checks

import (
	"bufio"
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unitSettings returns the values of a setting of the systemd unit, in order.
func unitSettings(t *testing.T, name string) []string {
	t.Helper()
	var values []string
	lines := bufio.NewScanner(bytes.NewReader(readFile(t, "deploy", "systemd", "elastalloc.service")))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+"="); ok {
			values = append(values, value)
		}
	}
	return values
}

// TestSystemdUnitRecords checks that the unit records in its state directory, within a size limit
// that the program takes, and that an empty variable switches it off, as one of its file does.
func TestSystemdUnitRecords(t *testing.T) {
	var variables []string
	for _, setting := range unitSettings(t, "Environment") {
		variables = append(variables, strings.Fields(setting)...)
	}
	state := unitSettings(t, "StateDirectory")
	if len(state) != 1 {
		t.Fatalf("the state directories are %q; want one", state)
	}
	record := "ELASTALLOC_RECORD=/var/lib/" + state[0] + "/recordings"
	i := slices.Index(variables, record)
	if i < 0 || !slices.ContainsFunc(variables, func(v string) bool { return strings.HasPrefix(v, "ELASTALLOC_RECORD_MAX_BYTES=") }) {
		t.Fatalf("the variables are %q; want %s and a size limit", variables, record)
	}
	server := buildServer(t)
	for name, off := range map[string]bool{"as it is": false, "switched off": true} {
		dir := filepath.Join(t.TempDir(), "recordings")
		t.Run(name, func(t *testing.T) {
			for _, variable := range slices.Replace(slices.Clone(variables), i, i+1, "ELASTALLOC_RECORD="+dir) {
				key, value, _ := strings.Cut(variable, "=")
				t.Setenv(key, value)
			}
			if off {
				t.Setenv("ELASTALLOC_RECORD", "")
			}
			address, _ := startServer(t, server, "serve")
			allocate := exec.Command(server, "allocate", "--server", address, "--file", atRoot(t, "examples", "snapshot.json"))
			if out, err := allocate.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
		// The server has exited, so all calls are written.
		files, err := filepath.Glob(filepath.Join(dir, "*.jsonl.zst"))
		if err != nil || (len(files) == 0) != off {
			t.Errorf("%s: the recordings are %q, %v", name, files, err)
		}
	}
}
