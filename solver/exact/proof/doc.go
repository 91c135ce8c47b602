// Package proof computes upper bounds and searches for better plans until the bound and the
// incumbent meet. The package comment of exact states the lemmas.
package proof
