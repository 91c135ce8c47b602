// Package subprocess runs external solvers as processes of this machine, so that
// one that crashes, hangs or errs costs a decision nothing but its own time.
//
//	run.go      any program: its own process group, our clock, capped output
//	backend.go  the course of a decision that all MILP solvers have in common
//	clock.go    how the time for it is split
//	folder.go   the folder that a run has to itself
//
// What differs between solvers, their arguments and file formats, is a Dialect;
// package external has them.
package subprocess
