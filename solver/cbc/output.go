package cbc

import (
	"math"
	"strconv"
	"strings"
)

// ParseVersion returns the version in the banner that every output begins with.
func (dialect) ParseVersion(output string) string {
	for line := range strings.Lines(output) {
		if version, found := strings.CutPrefix(line, "Version: "); found {
			return strings.TrimSpace(version)
		}
	}
	return ""
}

// ParseBound returns the bound that a search cut short prints, to three decimals.
// One that ran to its end prints none.
func (dialect) ParseBound(output string) float64 {
	bound := math.NaN()
	for line := range strings.Lines(output) {
		if text, found := strings.CutPrefix(line, "Lower bound:"); found {
			if value, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil {
				bound = value
			}
		}
	}
	return bound
}
