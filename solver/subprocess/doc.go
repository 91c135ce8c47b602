// Package subprocess runs external solvers as child processes, so that a solver that crashes, hangs or
// returns a wrong result costs a decision only the time of that solver.
//
//	run.go         runs any program in its own process group, with a deadline and limited output
//	backend.go     implements the backend of all MILP solvers
//	timelimits.go  divides the time of the backend
//	tempdir.go     creates the temporary directory of a run
//
// A Dialect has what differs between solvers: arguments and file formats. The dialects are in package
// external.
package subprocess
