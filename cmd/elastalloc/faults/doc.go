// Package faults holds the tests of what goes wrong around a server: solvers,
// disks, clocks, clients and networks that fail, each against the real binary. They
// promise that whatever happens, every call is answered within its deadline by a
// legal decision, that the report, the log and the metrics say what happened, and
// that nothing is left behind.
//
//	go test ./cmd/elastalloc/faults          all but the clock, in about a minute
//	go test -short ./cmd/elastalloc/faults   without the heavy ones
//	make clock-jump                          the clock, in a virtual machine
//
// docs/faults.md is the table of the faults and of what these tests have seen.
package faults
