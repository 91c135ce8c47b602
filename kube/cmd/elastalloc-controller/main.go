// Command elastalloc-controller watches the elastic training jobs of a Kubernetes cluster and requests
// their node counts from elastalloc. It writes them as recommendations, or resizes the jobs.
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
