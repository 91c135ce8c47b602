// Package closedloop tests the controller in a simulated cluster whose nodes, pods, users and API server misbehave. It shares
// no code with the tests of the other packages, so that they do not have the same errors.
package closedloop
