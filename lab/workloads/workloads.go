// Package workloads generates and modifies the traces and workloads of experiments.
package workloads
