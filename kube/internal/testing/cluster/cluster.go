//go:build linux

// Package cluster runs a real Kubernetes on this machine, without containers: released versions of
// etcd, the API server with RBAC, the controller manager and the scheduler, and kwok, which simulates
// nodes and their pods. All of them listen only on loopback and are killed when the program that
// started them exits. `make kube` builds the programs.
//
// Images, probes, signals and networking of containers are not simulated.
package cluster

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	mathrand "math/rand/v2"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"
)

// timeout is the maximum time until a condition is true. It is much longer than any takes, so that
// tests fail only if something hangs, even on a busy machine.
const timeout = 5 * time.Minute

// RequestTimeout is the maximum timeout of a request to the API server. Its default of 1 min is too short for large CRDs on
// a busy machine.
const RequestTimeout = 3 * time.Minute

// nodeGracePeriod is the time after which a node that does not renew its lease is lost. With the
// default of 50 s, nodes are lost on a busy machine.
const nodeGracePeriod = 10 * time.Minute

//go:embed stages.yaml
var podStages string

//go:embed audit.yaml
var auditPolicy []byte

// Cluster is a running Kubernetes.
type Cluster struct {
	// Kubeconfig is the path of the kubeconfig of the administrator.
	Kubeconfig string
	// Config is the client configuration of the administrator, without a rate limit.
	Config *rest.Config
	// Client uses Config.
	Client kubernetes.Interface
	// AuditLog is the path of the audit log of the API server: one JSON object per write, with its
	// content, per line.
	AuditLog string
	// URL is the address of the API server, and EtcdURL the address of etcd.
	URL, EtcdURL string
	// Programs and Directory are the arguments of Start.
	Programs, Directory string

	processes *processes
	apiserver *Process
	ca        []byte
}

// Start starts a cluster without nodes and returns when the cluster is ready. If it fails, it stops all
// processes. programs is the directory that `make kube` fills, .tools/kube. State and logs are written
// to directory, which must exist and which the caller removes. flags are more flags of the API server.
func Start(ctx context.Context, programs, directory string, flags ...string) (_ *Cluster, err error) {
	c := &Cluster{
		Kubeconfig: filepath.Join(directory, "kubeconfig"),
		AuditLog:   filepath.Join(directory, "audit.log"),
		Programs:   programs,
		Directory:  directory,
		processes:  newProcesses(directory),
	}
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	ports, err := FreePorts(3)
	if err != nil {
		return nil, err
	}
	c.URL = "https://127.0.0.1:" + ports[0]
	token, err := c.writeSecrets()
	if err != nil {
		return nil, err
	}

	c.EtcdURL = "http://127.0.0.1:" + ports[1]
	peer := "http://127.0.0.1:" + ports[2]
	if _, err := c.start("etcd", "--data-dir", c.path("etcd"), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-client-urls", c.EtcdURL, "--advertise-client-urls", c.EtcdURL,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer); err != nil {
		return nil, err
	}
	if err := c.startAPIServer(ports[0], flags); err != nil {
		return nil, err
	}
	// The server creates a self-signed certificate when it starts.
	err = c.Until(ctx, "a certificate", func() error {
		c.ca, err = os.ReadFile(c.path("certs/apiserver.crt"))
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := c.WriteKubeconfig(c.Kubeconfig, token); err != nil {
		return nil, err
	}
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return nil, err
	}
	c.Config.QPS, c.Config.Burst = -1, -1
	if c.Client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return nil, err
	}
	if err := c.untilReady(ctx); err != nil {
		return nil, err
	}
	if err := c.startControllers(); err != nil {
		return nil, err
	}
	err = c.Until(ctx, "the default service account", func() error {
		_, err := c.Client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return c, err
}

// Stop kills all processes of the cluster.
func (c *Cluster) Stop() { c.processes.killAll() }

// RestartAPIServer kills the API server and starts it again after the given downtime.
func (c *Cluster) RestartAPIServer(ctx context.Context, downtime time.Duration) error {
	args := c.apiserver.command.Args[1:]
	c.apiserver.Kill()
	select {
	case <-time.After(downtime):
	case <-ctx.Done():
		return ctx.Err()
	}
	var err error
	if c.apiserver, err = c.start("kube-apiserver", args...); err != nil {
		return err
	}
	return c.untilReady(ctx)
}

// Run starts a program that is killed when the cluster stops.
func (c *Cluster) Run(name, path string, args ...string) (*Process, error) {
	return c.processes.start(name, path, args...)
}

// Program returns the path of a program that `make kube` builds.
func (c *Cluster) Program(name string) string {
	return filepath.Join(c.Programs, "bin", name)
}

// WriteKubeconfig writes a kubeconfig for a bearer token.
func (c *Cluster) WriteKubeconfig(path, token string) error {
	return c.WriteKubeconfigOf(path, token, c.URL, c.ca)
}

// WriteKubeconfigOf writes a kubeconfig for a bearer token and a proxy of the API server. authority is
// the CA of the certificate of the proxy, in PEM.
func (c *Cluster) WriteKubeconfigOf(path, token, url string, authority []byte) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["kube"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: authority}
	config.AuthInfos["user"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["kube"] = &clientcmdapi.Context{Cluster: "kube", AuthInfo: "user"}
	config.CurrentContext = "kube"
	return clientcmd.WriteToFile(*config, path)
}

func (c *Cluster) path(name string) string { return filepath.Join(c.Directory, name) }

func (c *Cluster) start(name string, args ...string) (*Process, error) {
	return c.processes.start(name, c.Program(name), args...)
}

// writeSecrets writes the key of service accounts, the token of the administrator and the audit policy.
func (c *Cluster) writeSecrets() (token string, err error) {
	key, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return "", err
	}
	token = rand.Text()
	return token, errors.Join(
		os.WriteFile(c.path("sa.key"), key, 0o600),
		os.WriteFile(c.path("tokens.csv"), []byte(token+",admin,admin,system:masters\n"), 0o600),
		os.WriteFile(c.path("audit.yaml"), auditPolicy, 0o600),
	)
}

func (c *Cluster) startAPIServer(port string, flags []string) (err error) {
	c.apiserver, err = c.start("kube-apiserver", append(flags, "--etcd-servers", c.EtcdURL,
		"--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--secure-port", port, "--cert-dir", c.path("certs"),
		"--request-timeout", RequestTimeout.String(), "--endpoint-reconciler-type", "none", "--service-cluster-ip-range", "10.0.0.0/16",
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", c.path("sa.key"), "--service-account-signing-key-file", c.path("sa.key"),
		"--token-auth-file", c.path("tokens.csv"), "--authorization-mode", "RBAC", "--anonymous-auth=true",
		"--audit-policy-file", c.path("audit.yaml"), "--audit-log-path", c.AuditLog, "--audit-log-maxsize", "1000")...)
	return err
}

func (c *Cluster) startControllers() error {
	// Their ports are disabled, because nothing uses them. Their default limits of 20 and 50 requests
	// per second would slow down the controller under test.
	common := []string{
		"--kubeconfig", c.Kubeconfig, "--leader-elect=false", "--secure-port", "0", "--kube-api-qps", "1000", "--kube-api-burst", "1000",
	}
	if _, err := c.start("kube-controller-manager", append(common,
		"--service-account-private-key-file", c.path("sa.key"), "--root-ca-file", c.path("certs/apiserver.crt"),
		"--node-monitor-grace-period", nodeGracePeriod.String())...); err != nil {
		return err
	}
	if _, err := c.start("kube-scheduler", common...); err != nil {
		return err
	}
	nodeStage, err := os.ReadFile(filepath.Join(c.Programs, "manifests", "kwok-node.yaml"))
	if err != nil {
		return err
	}
	// A node with LostLabel must not become ready.
	const selector = "matchExpressions:\n"
	if strings.Count(string(nodeStage), selector) != 1 {
		return fmt.Errorf("unexpected node stage of kwok:\n%s", nodeStage)
	}
	readyUnlessLost := strings.Replace(string(nodeStage), selector,
		selector+"    - {key: '.metadata.labels[\""+LostLabel+"\"]', operator: DoesNotExist}\n", 1)
	stages := readyUnlessLost + "\n---\n" + podStages
	//nolint:gosec // The caller chooses the directory.
	if err := os.WriteFile(c.path("stages.yaml"), []byte(stages), 0o600); err != nil {
		return err
	}
	// kwok renews a lease four times in this time.
	_, err = c.start("kwok", "--kubeconfig", c.Kubeconfig, "--manage-all-nodes", "--config", c.path("stages.yaml"),
		"--node-lease-duration-seconds", strconv.Itoa(int(nodeGracePeriod.Seconds())))
	return err
}

func (c *Cluster) untilReady(ctx context.Context) error {
	return c.Until(ctx, "readyz", func() error {
		return c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// Until waits until condition returns nil. It fails after a timeout, or if the API server exits.
func (c *Cluster) Until(ctx context.Context, what string, condition func() error) error {
	return c.apiserver.Until(ctx, what, condition)
}

// Until waits until condition returns nil. It fails after a timeout, or if the process exits.
func (p *Process) Until(ctx context.Context, what string, condition func() error) error {
	deadline := time.Now().Add(timeout)
	for {
		err := condition()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within %v: %w\n%s", what, timeout, err, p.Tail())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.Exited():
			return fmt.Errorf("%s: the process has exited: %s", what, p.Tail())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// FreePorts returns free ports of loopback, below the range of ephemeral ports.
func FreePorts(n int) ([]string, error) {
	var ports []string
	var listeners []net.Listener // All stay open until all ports are found.
	defer func() {
		for _, listener := range listeners {
			_ = listener.Close()
		}
	}()
	for range 1000 {
		port := strconv.Itoa(20000 + mathrand.IntN(12000))
		listener, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			continue
		}
		listeners = append(listeners, listener)
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.New("no free ports between 20000 and 32000")
}
