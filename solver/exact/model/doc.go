// Package model is a problem in the units of the exact search: jobs, plans and their values,
// which jobs are equal, and how ties are broken. The package comment of exact says how it
// fits in.
package model
