package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// variableAnnotation is the annotation of a flag whose variable has a name of its own.
const variableAnnotation = "elastalloc_variable"

// SetVariable gives the variable of a flag another name: where commands share a flag's name
// but not its meaning, one variable must not set both.
func SetVariable(flags *pflag.FlagSet, name, variable string) {
	_ = flags.SetAnnotation(name, variableAnnotation, []string{variable}) // Fails only for a flag that is not there.
}

// environmentName returns the variable that sets a flag: ELASTALLOC_MAX_JOBS for max-jobs.
func environmentName(flag *pflag.Flag) string {
	if own := flag.Annotations[variableAnnotation]; len(own) > 0 {
		return own[0]
	}
	return "ELASTALLOC_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
}

// setFromEnvironment sets every flag that the command line has not set from its variable.
func setFromEnvironment(flags *pflag.FlagSet, env LookupEnv) error {
	var bad error
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed || flag.Name == "help" || bad != nil {
			return
		}
		name := environmentName(flag)
		if value := env.Get(name); value != "" {
			if err := flags.Set(flag.Name, value); err != nil {
				bad = fmt.Errorf("environment variable %s: %w", name, flagError(err))
			}
		}
	})
	return bad
}

// describeEnvironment names the variables that are not called as their flags. Lists get
// spaces, where a long one may be broken.
func describeEnvironment(root *cobra.Command) {
	for _, command := range root.Commands() {
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			if flag.Annotations[variableAnnotation] != nil {
				flag.Usage += " [$" + environmentName(flag) + "]"
			}
			flag.DefValue = strings.ReplaceAll(flag.DefValue, ",", ", ")
		})
	}
}
