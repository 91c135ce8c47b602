// Package checks tests the files in deploy: the manifests against the types
// of Kubernetes, the rules and the dashboard against Prometheus, and all of it against
// a real server under load.
package checks
