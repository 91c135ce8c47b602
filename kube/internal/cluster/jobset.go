//go:build linux

package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// startJobSet starts JobSet's controller. Its webhooks are named by URL, since nothing
// routes the addresses of services here, and its certificate is ours.
func (c *Cluster) startJobSet(ctx context.Context, webhookPort, healthPort string) error {
	directory := c.path("jobset")
	if err := os.Mkdir(directory, 0o700); err != nil {
		return err
	}
	certificate, err := writeCertificate(directory)
	if err != nil {
		return err
	}
	manifests := filepath.Join(c.options.Programs, "manifests")
	if _, err := c.Kubectl(ctx, "", "apply", "--server-side", "-f", filepath.Join(manifests, "jobset-crd.yaml")); err != nil {
		return err
	}
	err = until(ctx, c.apiserver, "JobSets served", func() error {
		_, err := c.Kubectl(ctx, "", "get", "jobsets.jobset.x-k8s.io")
		return err
	})
	if err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, "", "create", "namespace", "jobset-system"); err != nil {
		return err
	}
	config := fmt.Sprintf(`
apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
webhook: {host: 127.0.0.1, port: %s, certDir: %[2]s}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: "127.0.0.1:%[3]s"}
featureGates: {ElasticJobSet: true}
`, webhookPort, directory, healthPort)
	configPath := filepath.Join(directory, "config.yaml")
	if err := os.WriteFile(configPath, []byte(config), 0o600); err != nil {
		return err
	}
	process, err := c.start("jobset", "--config", configPath, "--kubeconfig", c.Kubeconfig)
	if err != nil {
		return err
	}
	err = until(ctx, process, "JobSet's readyz", func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+healthPort+"/readyz", http.NoBody)
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
	if err != nil {
		return err
	}
	webhooks, err := os.ReadFile(filepath.Join(manifests, "jobset-webhooks.yaml"))
	if err != nil {
		return err
	}
	rewritten, err := webhooksByURL(webhooks, "https://127.0.0.1:"+webhookPort, certificate)
	if err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, rewritten, "apply", "--server-side", "-f", "-")
	return err
}

// webhooksByURL gives webhook configurations a URL and a certificate instead of a service.
// Those of pods get the selector that JobSet's own installation patches in.
func webhooksByURL(manifest []byte, url string, certificate []byte) (string, error) {
	var out strings.Builder
	for document := range strings.SplitSeq(string(manifest), "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return "", err
		}
		webhooks, _ := object["webhooks"].([]any)
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

// writeCertificate writes tls.crt and tls.key, self-signed for 127.0.0.1, and returns the
// former.
func writeCertificate(directory string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "jobset"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	keyBytes, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	return text, errors.Join(
		os.WriteFile(filepath.Join(directory, "tls.crt"), text, 0o600),
		os.WriteFile(filepath.Join(directory, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyBytes}), 0o600),
	)
}
