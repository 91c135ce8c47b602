// Package e2e tests elastalloc-controller and the Helm charts on a real Kubernetes, whose
// nodes and pods kwok plays. `make check-kube` runs it.
//
// The controller runs outside of the cluster, with the rights that its chart gives it, so
// every test is one of RBAC and of the admission policy as well.
package e2e
