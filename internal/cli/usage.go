package cli

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/elastalloc/elastalloc/internal/format"
)

// parseDuration parses a duration as Go does, with days before it: 3h, 30d, 1d08h.
func parseDuration(text string) (time.Duration, error) {
	if head, rest, found := strings.Cut(text, "d"); found {
		if days, err := strconv.ParseFloat(head, 64); err == nil {
			text = strconv.FormatFloat(24*days, 'f', -1, 64) + "h" + rest
		}
	}
	return time.ParseDuration(text)
}

type durationFlag struct{ pflag.Value }

// Set takes a duration.
func (f durationFlag) Set(text string) error {
	if duration, err := parseDuration(text); err == nil {
		text = duration.String()
	}
	if f.Value.Set(text) != nil {
		return errors.New("must be a duration, such as 90s, 15m, 3h or 2d")
	}
	return nil
}

func acceptDays(root *cobra.Command) {
	for _, command := range commandsOf(root) {
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			if flag.Value.Type() == "duration" {
				flag.Value = durationFlag{flag.Value}
				if value, err := time.ParseDuration(flag.DefValue); err == nil && value > 0 {
					flag.DefValue = format.ShortDuration(value)
				} else {
					flag.DefValue = "" // None is shown.
				}
			}
		})
	}
}

// CompleteFiles lets the shell complete names of files of one kind for flags.
func CompleteFiles(command *cobra.Command, extension string, names ...string) {
	for _, name := range names {
		_ = command.MarkFlagFilename(name, extension) // Fails only for a flag that is not there.
	}
}

// wrapFlags makes the help break lines that are longer than 80 characters.
func wrapFlags(root *cobra.Command) {
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 80"))
}

// CompleteValues lets the shell complete the values of a flag, or of a list of them.
func CompleteValues(command *cobra.Command, flag string, values ...string) {
	// Fails only for a flag that is not there or has values already.
	_ = command.RegisterFlagCompletionFunc(flag,
		func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			before := ""
			if _, list := command.Flag(flag).Value.(pflag.SliceValue); list {
				before = typed[:strings.LastIndexByte(typed, ',')+1]
			}
			var completions []cobra.Completion
			for _, value := range values {
				completions = append(completions, before+value)
			}
			return completions, cobra.ShellCompDirectiveNoFileComp
		})
}

// completeEnums lets the shell complete all flags whose type lists their values.
func completeEnums(root *cobra.Command) {
	for _, command := range commandsOf(root) {
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			if values := strings.Split(flag.Value.Type(), "|"); len(values) > 1 {
				CompleteValues(command, flag.Name, values...)
			}
		})
	}
}
