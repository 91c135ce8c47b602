// Package solvertest is what the tests of every backend share: the conformance
// suite that each must pass, random valid snapshots that mix all features of the
// model, an exhaustive search that is simple enough to be believed, and where the
// programs of external solvers are.
package solvertest
