//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/elastalloc/elastalloc/kube/internal/testing/cluster"
)

// serviceAccountToken returns a token of a service account in the namespace elastalloc, valid for an hour.
func serviceAccountToken(ctx context.Context, name string) (string, error) {
	request, err := kube.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return request.Status.Token, nil
}

// kubectl runs kubectl as the administrator of a cluster, with standard input, and returns its
// output. An error contains the output, too.
func kubectl(ctx context.Context, c *cluster.Cluster, stdin string, args ...string) (string, error) {
	// Without a timeout, the API server stops a write after 34 s.
	common := []string{"--kubeconfig", c.Kubeconfig, "--request-timeout", cluster.RequestTimeout.String()}
	command := exec.CommandContext(ctx, c.Program("kubectl"), append(common, args...)...)
	command.Stdin = strings.NewReader(stdin)
	output, err := command.CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return string(output), nil
}

// setLost stops or resumes the heartbeats of a node.
func setLost(ctx context.Context, name string, lost bool) error {
	return changeNode(ctx, name, func(node *corev1.Node) {
		if delete(node.Labels, cluster.LostLabel); lost {
			node.Labels[cluster.LostLabel] = "yes"
		}
	})
}

// setCordoned cordons or uncordons a node.
func setCordoned(ctx context.Context, name string, cordoned bool) error {
	return changeNode(ctx, name, func(node *corev1.Node) { node.Spec.Unschedulable = cordoned })
}

func changeNode(ctx context.Context, name string, change func(*corev1.Node)) error {
	// Retry for up to 80 s after a conflict, or after a lost connection on a busy machine.
	again := func(err error) bool { return ctx.Err() == nil && !apierrors.IsNotFound(err) }
	return retry.OnError(wait.Backoff{Duration: 10 * time.Millisecond, Factor: 2, Steps: 14}, again, func() error {
		node, err := kube.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(node)
		_, err = kube.Client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
}
