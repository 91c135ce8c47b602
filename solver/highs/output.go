package highs

import (
	"math"
	"strconv"
	"strings"
)

// ParseVersion returns the version in the line that every output has:
//
//	HiGHS version 1.10.0 Githash n/a. Copyright (c) 2025 HiGHS under MIT licence terms
//	Running HiGHS 1.10.0 (git hash: n/a): Copyright (c) 2025 HiGHS under MIT licence terms
func (dialect) ParseVersion(output string) string {
	for line := range strings.Lines(output) {
		for _, prefix := range []string{"HiGHS version ", "Running HiGHS "} {
			if rest, found := strings.CutPrefix(line, prefix); found {
				version, _, _ := strings.Cut(rest, " ")
				return strings.TrimSpace(version)
			}
		}
	}
	return ""
}

// ParseBound returns the dual bound in the report of a search, and NaN where it
// has none.
func (dialect) ParseBound(output string) float64 {
	bound := math.NaN()
	for line := range strings.Lines(output) {
		text, found := strings.CutPrefix(strings.TrimSpace(line), "Dual bound ")
		if !found {
			continue
		}
		if value, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && !math.IsInf(value, 0) {
			bound = value
		}
	}
	return bound
}
