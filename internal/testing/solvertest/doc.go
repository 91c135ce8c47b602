// Package solvertest supports the tests of backends. It has the conformance suite that each backend
// must pass, generators of valid snapshots and problems with all features of the model, a simple
// exhaustive search as the oracle, and the lookup of the programs of external solvers.
package solvertest
