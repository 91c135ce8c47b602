package main

import (
	"errors"
	"strconv"
	"time"
)

// secondsFlag is a flag for a duration, such as 5m or 300s; a number alone is seconds.
type secondsFlag time.Duration

// String returns the duration.
func (f *secondsFlag) String() string { return time.Duration(*f).String() }

// Set parses a duration.
func (f *secondsFlag) Set(text string) error {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		text += "s"
	}
	value, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("want a duration, such as 90s, 5m or 300")
	}
	*f = secondsFlag(value)
	return nil
}

// Type returns the type shown in the help.
func (*secondsFlag) Type() string { return "duration" }
