package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagError says of a flag's value what is wanted, where the library says how it failed to
// parse it.
func flagError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	name, value := invalid.GetFlag().Name, invalid.GetValue()
	if own := errors.Unwrap(invalid); own != nil && strings.HasPrefix(own.Error(), "want ") {
		return fmt.Errorf("--%s is %q; %w", name, value, own)
	}
	var want string
	switch invalid.GetFlag().Value.Type() {
	case "int", "int32", "int64", "uint":
		want = "a whole number"
	case "float64":
		want = "a number, such as 0.05"
	case "bool":
		want = "true or false"
	case "duration":
		want = "a duration, such as 90s, 15m or 3h"
	case "intSlice":
		want = "whole numbers, such as 70,90,110"
	default:
		return err
	}
	return fmt.Errorf("--%s is %q; want %s", name, value, want)
}

// checkRequired returns an error for required flags that are not set, with an example of the
// command.
func checkRequired(command *cobra.Command) error {
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		if other := flag.Annotations[unlessAnnotation]; len(other) > 0 && command.Flag(other[0]).Changed {
			delete(flag.Annotations, cobra.BashCompOneRequiredFlag)
		}
	})
	err := command.ValidateRequiredFlags()
	if err == nil || command.Example == "" {
		return err
	}
	example, _, _ := strings.Cut(strings.TrimSpace(command.Example), "\n")
	return fmt.Errorf("%w; for example\n  %s", err, example)
}

// checkGroups returns an error for flags that exclude each other, or none of those of which
// one is needed, in the words of this program.
func checkGroups(command *cobra.Command) error {
	err := command.ValidateFlagGroups()
	if err == nil {
		return nil
	}
	// The library names the flags of a group in brackets, and last those that are set.
	text := err.Error()
	from, to := strings.LastIndexByte(text, '['), strings.LastIndexByte(text, ']')
	if from < 0 || to < from {
		return err
	}
	flags := strings.Fields(text[from+1 : to])
	switch {
	case strings.HasPrefix(text, "at least one of"):
		last := len(flags) - 1
		return fmt.Errorf("give --%s or --%s", strings.Join(flags[:last], ", --"), flags[last])
	case strings.HasSuffix(text, "were all set"):
		return fmt.Errorf("--%s exclude each other; give one of them", strings.Join(flags, " and --"))
	default:
		return err
	}
}

// unlessAnnotation is the annotation of a required flag that another one makes needless.
const unlessAnnotation = "elastalloc_unless"

// RequireUnless makes a required flag one that is needed only where another is not set.
func RequireUnless(command *cobra.Command, flag, other string) {
	_ = command.Flags().SetAnnotation(flag, unlessAnnotation, []string{other}) // Fails only for a flag that is not there.
}

// CompleteValues lets the shell complete the values of a flag, each of them where the flag
// takes a list.
func CompleteValues(command *cobra.Command, flag string, values ...string) {
	// Fails only for a flag that is not there or has values already.
	_ = command.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
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

// completeEnums lets the shell complete the values of all flags that list them as their
// type.
func completeEnums(root *cobra.Command) {
	for _, command := range root.Commands() {
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			if values := strings.Split(flag.Value.Type(), "|"); len(values) > 1 {
				CompleteValues(command, flag.Name, values...)
			}
		})
	}
}
