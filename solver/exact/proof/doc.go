// Package proof turns numbers into bounds: it searches a problem until no plan can be better
// than the one found. The package comment of exact states the lemmas.
package proof
