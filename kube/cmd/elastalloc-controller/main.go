// Command elastalloc-controller watches the elastic training jobs of a Kubernetes
// cluster, asks elastalloc how many nodes each should have, and says so or resizes them.
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/manager/signals"
)

func main() {
	if err := run(signals.SetupSignalHandler(), os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "elastalloc-controller:", err)
		os.Exit(exitStatus(err))
	}
}
