//go:build linux

package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/yaml"

	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
)

// Names of the programs of the controllers that startOperator supports.
const (
	jobSet           = "jobset"
	trainingOperator = "training-operator"
	trainer          = "trainer"
	kubeRay          = "ray-operator"
	kueue            = "kueue"
)

// startOperator starts the controller of a kind of jobs, and installs its CRDs and webhooks. Webhooks use URLs, because
// service addresses are not routed, and a certificate of this test. The controller stops with the cluster at the latest.
func startOperator(ctx context.Context, c *cluster.Cluster, name string) (*cluster.Process, error) {
	directory := filepath.Join(c.Directory, name)
	certificates := filepath.Join(directory, "k8s-webhook-server", "serving-certs")
	if err := os.MkdirAll(certificates, 0o700); err != nil {
		return nil, err
	}
	certificate, err := writeCertificate(certificates)
	if err != nil {
		return nil, err
	}
	ports, err := cluster.FreePorts(2)
	if err != nil {
		return nil, err
	}
	manifests := filepath.Join(c.Programs, "manifests", name)
	if err := define(ctx, c, filepath.Join(manifests, "crds")); err != nil {
		return nil, err
	}
	arguments, webhooks, err := prepareOperator(ctx, c, name, directory, ports[0], ports[1])
	if err != nil {
		return nil, err
	}
	// All programs read their certificates below the folder for temporary files.
	process, err := c.Run(name, "/usr/bin/env",
		append([]string{"TMPDIR=" + directory, c.Program(name), "--kubeconfig=" + c.Kubeconfig}, arguments...)...)
	if err != nil {
		return nil, err
	}
	err = process.Until(ctx, name+"'s readyz", func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+ports[1]+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
	if err != nil || !webhooks {
		return process, err
	}
	configurations, err := os.ReadFile(filepath.Join(manifests, "webhooks.yaml"))
	if err != nil {
		return nil, err
	}
	rewritten, err := webhooksByURL(configurations, name, "https://127.0.0.1:"+ports[0], certificate)
	if err != nil {
		return nil, err
	}
	_, err = kubectl(ctx, c, rewritten, "apply", "--server-side", "-f", "-")
	return process, err
}

// define applies CRDs from files GROUP_RESOURCE.yaml and waits until they are served.
func define(ctx context.Context, c *cluster.Cluster, directory string) error {
	if _, err := kubectl(ctx, c, "", "apply", "--server-side", "-f", directory); err != nil {
		return err
	}
	files, err := os.ReadDir(directory)
	if err != nil {
		return err
	}
	for _, file := range files {
		group, resource, _ := strings.Cut(strings.TrimSuffix(file.Name(), ".yaml"), "_")
		err := c.Until(ctx, resource+" served", func() error {
			_, err := kubectl(ctx, c, "", "get", resource+"."+group)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// prepareOperator creates the files and objects that a controller needs, and returns its arguments and whether it has
// webhooks.
func prepareOperator(
	ctx context.Context, c *cluster.Cluster, name, directory, webhookPort, healthPort string,
) (arguments []string, webhooks bool, err error) {
	health, config := "127.0.0.1:"+healthPort, ""
	switch name {
	case jobSet:
		config = fmt.Sprintf(`
apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
webhook: {host: 127.0.0.1, port: %s, certDir: %s/k8s-webhook-server/serving-certs}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: %q}
featureGates: {ElasticJobSet: true}
`, webhookPort, directory, health)
	case trainer:
		config = fmt.Sprintf(`
apiVersion: config.trainer.kubeflow.org/v1alpha1
kind: Configuration
leaderElection: {leaderElect: false}
certManagement: {enable: false}
webhook: {host: 127.0.0.1, port: %s}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: %q}
`, webhookPort, health)
	case kueue:
		config = fmt.Sprintf(`
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
webhook: {host: 127.0.0.1, port: %s, certDir: %s/k8s-webhook-server/serving-certs}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: %q}
integrations: {frameworks: [batch/job, ray.io/raycluster, ray.io/rayjob]}
featureGates: {ElasticJobsViaWorkloadSlices: true, VisibilityOnDemand: false}
`, webhookPort, directory, health)
	case trainingOperator:
		// It creates its own certificates, which are not used here, and stores them in a secret that must exist. It
		// then waits for them in a fixed folder.
		if _, err := kubectl(ctx, c, "", "create", "namespace", "kubeflow"); err != nil {
			return nil, false, err
		}
		if _, err := kubectl(ctx, c, "", "create", "secret", "generic", "training-operator-webhook-cert", "--namespace=kubeflow"); err != nil {
			return nil, false, err
		}
		const mounted = "/tmp/k8s-webhook-server/serving-certs"
		if err := os.MkdirAll(mounted, 0o755); err != nil { // Clusters of other users use it, too.
			return nil, false, err
		}
		file, err := os.OpenFile(filepath.Join(mounted, "tls.crt"), os.O_CREATE|os.O_RDONLY, 0o644)
		if err != nil {
			return nil, false, err
		}
		return []string{
			"--enable-scheme=pytorchjob", "--metrics-bind-address=0",
			"--health-probe-bind-address=" + health, "--webhook-server-port=" + webhookPort,
		}, true, file.Close()
	case kubeRay:
		// Its webhooks are disabled by default, and use a fixed port.
		return []string{"--enable-leader-election=false", "--metrics-addr=0", "--health-probe-bind-address=" + health}, false, nil
	}
	path := filepath.Join(directory, "config.yaml")
	return []string{"--config=" + path}, true, os.WriteFile(path, []byte(config), 0o600)
}

// webhooksByURL replaces the service of webhook configurations by a URL and a certificate, and adds a prefix to their
// names, which are the same for many controllers. Webhooks for pods get the selector of the installation of JobSet.
func webhooksByURL(manifest []byte, prefix, url string, certificate []byte) (string, error) {
	var out strings.Builder
	for document := range strings.SplitSeq(string(manifest), "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return "", err
		}
		webhooks, _ := object["webhooks"].([]any)
		if prefix == kueue {
			webhooks = kueueWebhooks(webhooks)
			object["webhooks"] = webhooks
		}
		if metadata, ok := object["metadata"].(map[string]any); ok {
			metadata["name"] = fmt.Sprintf("%s.%v", prefix, metadata["name"])
		}
		if len(webhooks) == 0 {
			return "", fmt.Errorf("a webhook configuration without webhooks: %s", document)
		}
		for _, element := range webhooks {
			webhook, _ := element.(map[string]any)
			client, _ := webhook["clientConfig"].(map[string]any)
			service, _ := client["service"].(map[string]any)
			path, _ := service["path"].(string)
			if path == "" {
				return "", fmt.Errorf("a webhook without a service's path: %v", webhook)
			}
			webhook["timeoutSeconds"] = 30 // the maximum, for a busy machine
			webhook["clientConfig"] = map[string]any{
				"url": url + path, "caBundle": base64.StdEncoding.EncodeToString(certificate),
			}
			if strings.HasSuffix(path, "-pod") {
				webhook["objectSelector"] = map[string]any{"matchExpressions": []any{
					map[string]any{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"},
				}}
			}
		}
		text, err := yaml.Marshal(object)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&out, "---\n%s", text)
	}
	return out.String(), nil
}

// kueueWebhooks returns the webhooks of Kueue for its own objects, and for Jobs and RayClusters in the namespace of its
// test.
func kueueWebhooks(all []any) (kept []any) {
	for _, element := range all {
		webhook, _ := element.(map[string]any)
		switch path, _, _ := unstructured.NestedString(webhook, "clientConfig", "service", "path"); {
		case strings.HasSuffix(path, "-batch-v1-job"),
			strings.HasSuffix(path, "-ray-io-v1-raycluster"), strings.HasSuffix(path, "-ray-io-v1-rayjob"):
			webhook["namespaceSelector"] = map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": kueue}}
			kept = append(kept, webhook)
		case strings.Contains(path, "-kueue-x-k8s-io-"):
			kept = append(kept, webhook)
		}
	}
	return kept
}

// writeCertificate writes tls.crt and tls.key, self-signed for 127.0.0.1, and returns the
// certificate.
func writeCertificate(directory string) ([]byte, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("webhooks", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	return certificate, errors.Join(err,
		os.WriteFile(filepath.Join(directory, "tls.crt"), certificate, 0o600),
		os.WriteFile(filepath.Join(directory, "tls.key"), key, 0o600),
	)
}
