package convert

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/elastalloc/elastalloc/sim"
)

func invalid(name, value, valid string) *refusal {
	return &refusal{name + " not valid", quoted(name, value) + "; must be " + valid}
}

func empty(name string) *refusal { return &refusal{reason: name + " empty"} }

// noGPUs is the refusal of a job without GPUs.
func noGPUs(name, value string) *refusal { return &refusal{"ran on no GPUs", quoted(name, value)} }

// seconds reads a column of seconds.
func (r *row) seconds(name string) (time.Duration, *refusal) {
	value := r.text(name)
	if value == "" {
		return 0, empty(name)
	}
	seconds, err := sim.ParseSeconds(value)
	if err != nil {
		return 0, invalid(name, value, "a number of seconds, at least 0")
	}
	return seconds, nil
}

// gpus reads a column of GPUs: a whole number, also with decimals that are 0.
func (r *row) gpus(name string) (int, *refusal) {
	value := r.text(name)
	if value == "" {
		return 0, empty(name)
	}
	gpus, err := strconv.ParseFloat(value, 64)
	if err != nil || gpus != math.Trunc(gpus) || gpus < 0 || gpus > math.MaxInt32 {
		return 0, invalid(name, value, fmt.Sprintf("a whole number from 0 to %d", math.MaxInt32))
	}
	if gpus == 0 {
		return 0, noGPUs(name, value)
	}
	return int(gpus), nil
}

// number reads a column of numbers of at least 0.
func (r *row) number(name string) (float64, *refusal) {
	value := r.text(name)
	number, err := strconv.ParseFloat(value, 64)
	// Written so that NaN, which compares false with everything, is refused too.
	if err != nil || !(number >= 0 && number <= math.MaxInt32) {
		return 0, invalid(name, value, fmt.Sprintf("a number from 0 to %d", math.MaxInt32))
	}
	return number, nil
}

// dateAndTime is what a time must be.
const dateAndTime = "a date and a time, such as 2026-05-04T09:00:00"

// parseTime returns the instants at which the clocks of a zone show a time, in their order: two in
// the hour that the end of daylight saving time repeats, one otherwise, and none if the text is
// not a time. A time with an offset needs no zone.
func parseTime(text string, zone *time.Location) []time.Time {
	for _, separator := range []string{"T", " "} {
		layout := time.DateOnly + separator + time.TimeOnly
		for _, offset := range []string{"Z07:00", "Z0700"} {
			if t, err := time.Parse(layout+offset, text); err == nil {
				return []time.Time{t}
			}
		}
		if wall, err := time.Parse(layout, text); err == nil {
			return instants(wall, zone)
		}
	}
	return nil
}

// instants returns the instants at which the clocks of a zone show the date and the time that
// those of UTC show at the given one.
func instants(wall time.Time, zone *time.Location) []time.Time {
	offset := func(t time.Time) time.Duration {
		_, seconds := t.In(zone).Zone()
		return time.Duration(seconds) * time.Second
	}
	// Clocks are changed at most once in these two days.
	before, after := offset(wall.AddDate(0, 0, -1)), offset(wall.AddDate(0, 0, 1))
	first, second := wall.Add(-before), wall.Add(-after)
	switch changed := offset(second) == after; {
	case before == after || !changed: // Where clocks skip an hour, neither is right.
		return []time.Time{first}
	case offset(first) == before:
		return []time.Time{first, second}
	default:
		return []time.Time{second}
	}
}
