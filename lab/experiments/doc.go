// Package experiments repeats the experiments of Hu et al., "An Optimal Resource
// Allocator of Elastic Training for Deep Learning Jobs on Cloud", and sets what it
// finds beside what the paper says.
//
// Run makes all runs: under each Setting, on synthetic workloads of several seeds
// and on a trace if one is given, over the paper's pools. Findings holds their
// measures; its Results, Figures and Report are the numbers, the drawings and a
// page to read. Every sentence on a result is put together from the numbers of that
// very run, so it is as true on another trace.
package experiments
