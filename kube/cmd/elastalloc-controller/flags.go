package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/elastalloc/elastalloc/client"
	"github.com/elastalloc/elastalloc/internal/recording"
	"github.com/elastalloc/elastalloc/kube/plan"
)

// flags are the values of the command line.
type flags struct {
	config, mode                                    string
	server, tlsCA, tlsCert, tlsKey, tlsServerName   string
	inProcess, leaderElect                          bool
	leaderNamespace, kubeconfig, adminListen, level string
	record                                          string
	recordMaxBytes                                  int64
}

// set returns the flag set, which stores its values in f.
func (f *flags) set() *pflag.FlagSet {
	set := pflag.NewFlagSet("elastalloc-controller", pflag.ContinueOnError)
	set.StringVar(&f.config, "config", "", "configuration file of the pools; see docs/schedulers/kubernetes.md (required)")
	set.StringVar(&f.mode, "mode", plan.ModeRecommend, "recommend: only write annotations and events; apply: also resize jobs")
	set.StringVar(&f.server, "server", "", "address of the elastalloc server")
	set.BoolVar(&f.inProcess, "in-process", false, "make decisions in this process instead of calling a server")
	set.StringVar(&f.tlsCA, "tls-ca", "", "PEM file of the CA of the server's certificate; any --tls flag enables TLS")
	set.StringVar(&f.tlsCert, "tls-cert", "", "PEM file of the client certificate")
	set.StringVar(&f.tlsKey, "tls-key", "", "PEM file of the key of the client certificate")
	set.StringVar(&f.tlsServerName, "tls-server-name", "", "name in the server's certificate (default: the host of --server)")
	set.BoolVar(&f.leaderElect, "leader-elect", true, "act only while this replica is the leader according to the Lease elastalloc-controller")
	set.StringVar(&f.leaderNamespace, "leader-election-namespace", "", "namespace of the Lease (default: the namespace of the pod)")
	set.StringVar(&f.kubeconfig, "kubeconfig", "",
		"kubeconfig file of the cluster (default: the service account in a cluster, otherwise as for kubectl)")
	set.StringVar(&f.adminListen, "admin-listen", "127.0.0.1:9464",
		"address of admin HTTP: /metrics, /healthz, /readyz and the last decisions at /")
	set.StringVar(&f.record, "record", "", "directory to record every decision in, for elastalloc-lab replay")
	set.Int64Var(&f.recordMaxBytes, "record-max-bytes", recording.DefaultMaxBytes,
		"maximum size of the recordings in bytes; older recordings are deleted")
	set.StringVar(&f.level, "log-level", "info", "debug, info, warn or error")
	set.VisitAll(func(flag *pflag.Flag) { flag.Usage += usageSuffix(flag) })
	return set
}

// usageSuffix returns the suffix of a usage with the environment variable of the flag.
func usageSuffix(flag *pflag.Flag) string { return " [$" + variable(flag) + "]" }

// writeFlags writes the section of docs/reference/command-line.md about this program.
func writeFlags(w io.Writer, set *pflag.FlagSet) error {
	var text strings.Builder
	text.WriteString("\n## elastalloc-controller\n\n")
	set.VisitAll(func(flag *pflag.Flag) {
		usage := strings.TrimSuffix(flag.Usage, usageSuffix(flag))
		if flag.DefValue != "" && flag.DefValue != "false" {
			usage += " (default `" + flag.DefValue + "`)"
		}
		fmt.Fprintf(&text, "- `--%s`: %s\n", flag.Name, usage)
	})
	_, err := io.WriteString(w, text.String())
	return err
}

// variable returns the environment variable of a flag.
func variable(flag *pflag.Flag) string {
	return "ELASTALLOC_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
}

// flagError returns an error with the flag, its value and what is valid.
func flagError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	valid := "an integer"
	if invalid.GetFlag().Value.Type() == "bool" {
		valid = "true or false"
	}
	return fmt.Errorf("--%s: is %q; must be %s", invalid.GetFlag().Name, invalid.GetValue(), valid)
}

// parse parses the command line and, for flags that it does not set, the environment. The error names
// every invalid flag.
func (f *flags) parse(set *pflag.FlagSet, args []string, env func(string) (string, bool)) (slog.Level, error) {
	if err := set.Parse(args); err != nil {
		return 0, flagError(err)
	}
	var errs []error
	if set.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q", set.Arg(0)))
	}
	set.VisitAll(func(flag *pflag.Flag) {
		if value, _ := env(variable(flag)); value != "" && !flag.Changed {
			if err := set.Set(flag.Name, value); err != nil {
				errs = append(errs, fmt.Errorf("environment variable %s: %w", variable(flag), flagError(err)))
			}
		}
	})
	if f.config == "" {
		errs = append(errs, errors.New("--config: is missing; must be set"))
	}
	if f.mode != plan.ModeRecommend && f.mode != plan.ModeApply {
		errs = append(errs, fmt.Errorf("--mode: is %q; must be %s or %s", f.mode, plan.ModeRecommend, plan.ModeApply))
	}
	if (f.server == "") == !f.inProcess {
		errs = append(errs, errors.New("exactly one of --server and --in-process must be set"))
	}
	if f.inProcess && f.tls() {
		errs = append(errs, errors.New("--tls flags need --server"))
	}
	if (f.tlsCert == "") != (f.tlsKey == "") {
		errs = append(errs, errors.New("--tls-cert and --tls-key must be set together"))
	}
	if f.recordMaxBytes < recording.MinMaxBytes {
		errs = append(errs, fmt.Errorf("--record-max-bytes: is %d; must be at least %d", f.recordMaxBytes, recording.MinMaxBytes))
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.level)); err != nil {
		errs = append(errs, fmt.Errorf("--log-level: is %q; must be debug, info, warn or error", f.level))
	}
	return level, errors.Join(errs...)
}

func (f *flags) tls() bool {
	return f.tlsCA != "" || f.tlsCert != "" || f.tlsKey != "" || f.tlsServerName != ""
}

// client returns a client of the configured server.
func (f *flags) client() (*client.Client, error) {
	if !f.tls() {
		return client.New(f.server)
	}
	// TLSConfigFor reloads the client certificate, so that new connections use a renewed one.
	config, err := rest.TLSConfigFor(&rest.Config{Host: "https://", TLSClientConfig: rest.TLSClientConfig{
		CAFile: f.tlsCA, CertFile: f.tlsCert, KeyFile: f.tlsKey, ServerName: f.tlsServerName,
	}})
	if err == nil && config.GetClientCertificate != nil {
		_, err = config.GetClientCertificate(nil)
	}
	if err != nil {
		return nil, fmt.Errorf("--tls-ca, --tls-cert and --tls-key: %w", err)
	}
	return client.New(f.server, client.WithTLS(config))
}
