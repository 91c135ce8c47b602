// Package results writes the results of simulations: summary.json, jobs.csv and the
// directory that holds them, which appears complete or not at all.
package results
