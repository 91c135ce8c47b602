// Package model represents a problem in the units of the exact search: jobs, plans and their
// values, classes of identical jobs, and tie costs. The package comment of exact describes the
// whole search.
package model
