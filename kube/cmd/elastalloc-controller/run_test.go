package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeConfig writes a configuration file and returns its path.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	good := writeConfig(t, "pools: [{name: training, nodeSelector: {pool: training}}]")
	bad := writeConfig(t, "pools: [{name: training, cadence: soon}]")
	for name, test := range map[string]struct {
		args []string
		env  map[string]string
		want []string
	}{
		"no flags": {nil, nil, []string{"--config: is missing", "one of --server and --in-process must be set"}},
		"all flags invalid": {
			[]string{"--mode", "force", "--server", "a:1", "--in-process", "--log-level", "loud", "--tls-cert", "x", "now"}, nil,
			[]string{
				`unexpected argument "now"`, "--config", "--mode", "--in-process",
				"--log-level", "--tls-cert and --tls-key", "--tls flags need --server",
			},
		},
		"invalid variable": {
			[]string{"--config", good}, map[string]string{"ELASTALLOC_IN_PROCESS": "maybe"},
			[]string{`ELASTALLOC_IN_PROCESS: --in-process: is "maybe"; must be true or false`},
		},
		"invalid number":        {[]string{"--record-max-bytes", "1GB"}, nil, []string{`--record-max-bytes: is "1GB"; must be an integer`}},
		"no file":               {[]string{"--config", good + ".", "--in-process"}, nil, []string{"no such file"}},
		"invalid configuration": {[]string{"--config", bad, "--in-process"}, nil, []string{bad, "pools[0].cadence", "pools[0].nodeSelector"}},
		"no authority": {
			[]string{"--config", good, "--server", "a:1", "--tls-ca", good}, nil, []string{"--tls-ca", "parse bytes as PEM"},
		},
		"no certificate": {
			[]string{"--config", good, "--server", "a:1", "--tls-cert", good, "--tls-key", good}, nil, []string{"--tls-cert and --tls-key", "PEM"},
		},
		"no cluster": {
			[]string{"--kubeconfig", good + "."},
			map[string]string{"ELASTALLOC_CONFIG": good, "ELASTALLOC_IN_PROCESS": "true"}, []string{"no such file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := func(name string) (string, bool) { value, set := test.env[name]; return value, set }
			var stdout, stderr bytes.Buffer
			err := run(t.Context(), test.args, env, &stdout, &stderr)
			if err == nil || exitStatus(err) != 2 {
				t.Fatalf("error is %v; want a usage error", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error is %v; want %q in it", err, want)
				}
			}
		})
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	if err := run(t.Context(), []string{"--help"}, func(string) (string, bool) { return "", false }, &stdout, &stdout); err != nil {
		t.Fatal(err)
	}
	if help := stdout.String(); !strings.Contains(help, "[$ELASTALLOC_MODE]") {
		t.Errorf("help is %s", help)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"version", "--version"} {
		var stdout bytes.Buffer
		if err := run(t.Context(), []string{arg}, nil, &stdout, &stdout); err != nil {
			t.Fatal(err)
		}
		if text := stdout.String(); !strings.HasPrefix(text, "elastalloc-controller ") || !strings.Contains(text, " go1.") {
			t.Errorf("%s prints %q", arg, text)
		}
	}
}
