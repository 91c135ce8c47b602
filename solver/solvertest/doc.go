// Package solvertest is what the tests of every backend share: random valid
// snapshots that mix all features of the model, an exhaustive search that is
// simple enough to be believed, and the place of the shared instances.
package solvertest
