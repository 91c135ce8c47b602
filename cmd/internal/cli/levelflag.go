package cli

import (
	"errors"
	"log/slog"
	"strings"

	"github.com/spf13/pflag"
)

// levelFlag is a flag for a level of logs.
type levelFlag struct{ level *slog.Level }

// NewLevelFlag returns a flag that sets level. The value it has is the default.
func NewLevelFlag(level *slog.Level) pflag.Value { return levelFlag{level} }

// String returns the level.
func (f levelFlag) String() string {
	if f.level == nil {
		return ""
	}
	return strings.ToLower(f.level.String())
}

// Set takes a level.
func (f levelFlag) Set(text string) error {
	if f.level.UnmarshalText([]byte(text)) != nil {
		return errors.New("want debug, info, warn or error")
	}
	return nil
}

// Type returns what the help shows for a value.
func (levelFlag) Type() string { return "debug|info|warn|error" }
