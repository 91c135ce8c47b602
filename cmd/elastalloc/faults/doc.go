// Package faults holds the tests of what goes wrong around a server: solvers,
// disks, clocks, clients and networks that fail, each against the real binary. They
// promise that whatever happens, every call is answered within its deadline by a
// legal decision, that the report, the log and the metrics say what happened, and
// that nothing is left behind.
//
//	make faults       all but the clock; go test runs them where the environment
//	                  has ELASTALLOC_TESTS=faults
//	make soak         the soaks alone, mixed and hostile load
//	make clock-jump   the clock, in a virtual machine
//
// docs/explanation/fault-tolerance.md lists the faults and what these tests have seen.
package faults
