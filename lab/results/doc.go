// Package results writes what a simulation found: summary.json, jobs.csv and the
// directory they stand in, which is whole or not there at all.
package results
