// Package faults tests a server, as a built binary, with failing solvers, disks,
// clocks, clients and networks. The tests check that every call gets a legal decision
// within its deadline, that the report, the log and the metrics describe the fault,
// and that no processes or files remain.
//
//	make faults       all tests except the clock; go test runs them if the environment
//	                  has ELASTALLOC_TESTS=faults
//	make soak         only the soak tests, with mixed and hostile load
//	make clock-jump   the clock, in a virtual machine
//
// docs/explanation/fault-tolerance.md lists the faults and the results of these tests.
package faults
