package cli

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// numberError matches an error of strconv, and the value in it.
var numberError = regexp.MustCompile(`strconv\.\w+: parsing ("(?:[^"\\]|\\.)*"): (invalid syntax|value out of range)`)

// unknownCommand matches cobra's error for an argument that is no command.
var unknownCommand = regexp.MustCompile(`^unknown command "((?:[^"\\]|\\.)*)" for "`)

// describe returns an error of a command line in the words of this project.
func describe(command *cobra.Command, err error) string {
	message := strings.ReplaceAll(err.Error(), "\n\t", "\n  ")
	if exitStatus(err) == ExitBadInput { // The errors of a run may quote any text.
		message = numberError.ReplaceAllStringFunc(message, func(found string) string {
			parts := numberError.FindStringSubmatch(found)
			if parts[2] == "value out of range" {
				return parts[1] + " is out of range"
			}
			return parts[1] + " is not a number"
		})
	}
	if found := unknownCommand.FindStringSubmatch(message); found != nil {
		switch argument := found[1]; {
		case command.Flags().Lookup("file") != nil:
			message += "; to read a file, use -f " + argument
		case strings.HasSuffix(argument, ".json"):
			message += "; to decide a request in a file, use " + command.Name() + " allocate -f " + argument
		}
	}
	return message
}
