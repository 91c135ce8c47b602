package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elastalloc/elastalloc/sim"
	"github.com/elastalloc/elastalloc/solver"
)

// totalTimeFlag is the flag that sets parameters of the objective of total time, by their
// names in the API.
type totalTimeFlag map[string]string

// apply sets the parameters in the policies that have the objective, and reports every bad
// one.
func (f totalTimeFlag) apply(policies []sim.Policy, addf func(format string, args ...any)) {
	asked := solver.Options{Objective: solver.ObjectiveTotalTime}.WithDefaults()
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if err := setTotalTime(&asked.TotalTime, name, f[name]); err != nil {
			addf("--total-time: %v", err)
			continue
		}
		used := false
		for i := range policies {
			if options := &policies[i].Options; options.Objective == solver.ObjectiveTotalTime {
				used = setTotalTime(&options.TotalTime, name, f[name]) == nil
			}
		}
		if !used {
			addf("--total-time sets %s; want a policy of total time", name)
		}
	}
	for _, violation := range asked.Validate([]solver.BackendName{asked.Backend}) {
		addf("--total-time: %s %s", strings.TrimPrefix(violation.Path, "total_time."), violation.Description)
	}
}

// setTotalTime sets the parameter of a name.
func setTotalTime(o *solver.TotalTimeOptions, name, value string) error {
	factors := map[string]**float64{
		"fairness": &o.Fairness, "pause_price_factor": &o.PausePriceFactor, "quota_price": &o.QuotaPrice,
		"eta_error": &o.ETAError,
	}
	spans := map[string]**time.Duration{
		"aging": &o.Aging, "rescale_price": &o.RescalePrice, "payback": &o.Payback, "start_bonus": &o.StartBonus,
	}
	if factors[name] != nil {
		factor, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("%s is %q; want a number", name, value)
		}
		*factors[name] = &factor
		return nil
	}
	if spans[name] != nil {
		span := new(time.Duration)
		if err := (*secondsFlag)(span).Set(value); err != nil {
			return fmt.Errorf("%s is %q; %w", name, value, err)
		}
		*spans[name] = span
		return nil
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(factors)), maps.Keys(spans))
	slices.Sort(names)
	return fmt.Errorf("unknown parameter %q (want some of %s)", name, strings.Join(names, ", "))
}
