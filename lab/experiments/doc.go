// Package experiments repeats the experiments of Hu et al., "An Optimal Resource
// Allocator of Elastic Training for Deep Learning Jobs on Cloud", and sets its numbers
// beside the paper's.
//
// Run makes all runs: under each setting, on synthetic workloads of several seeds
// and on a trace if one is given, over the paper's pools. Results holds the numbers,
// which JSON, Figures and Report turn into results.json, drawings and a page. The text
// of the page is in report.html.tmpl and the same for every run.
package experiments
