// Package guess finds prices and plans for the exact search. It may be slow, never wrong: what
// it returns is evaluated and checked by its caller, and it writes no bound.
package guess
