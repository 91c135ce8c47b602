package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/format"
)

// AddOutput adds the flag for the output format: a table by default, JSON or one of others.
func AddOutput(flags *pflag.FlagSet, output *string, others ...string) {
	*output = OutputTable
	flags.VarP(ChoiceFlag{output, append([]string{OutputTable, OutputJSON}, others...)}, "output", "o", "output format")
}

// AddUnit adds the flag that names the unit of allocation in outputs.
func AddUnit(flags *pflag.FlagSet, unit *string) {
	*unit = format.Node
	flags.Var((*unitFlag)(unit), "unit", "name of the unit of allocation in outputs for a person, such as gpu")
}

// unitFlag is a flag whose value is a word.
type unitFlag string

// String returns the value.
func (f *unitFlag) String() string { return string(*f) }

// Set takes a word.
func (f *unitFlag) Set(text string) error {
	const longest = 20
	letter := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
	if text == "" || len(text) > longest || strings.TrimFunc(text, letter) != "" {
		return fmt.Errorf("must be a word of at most %d letters", longest)
	}
	*f = unitFlag(text)
	return nil
}

// Type returns what the help shows for a value.
func (*unitFlag) Type() string { return "word" }

// ChoiceFlag is a flag whose value is one of Choices, with shell completion.
type ChoiceFlag struct {
	Value   *string
	Choices []string
}

// String returns the value.
func (f ChoiceFlag) String() string {
	if f.Value == nil {
		return ""
	}
	return *f.Value
}

// Set sets one of the choices. It ignores case.
func (f ChoiceFlag) Set(text string) error {
	text = strings.ToLower(text)
	if !slices.Contains(f.Choices, text) {
		return fmt.Errorf("must be one of %s", strings.Join(f.Choices, ", "))
	}
	*f.Value = text
	return nil
}

// Type returns what the help shows for a value.
func (f ChoiceFlag) Type() string { return strings.Join(f.Choices, "|") }

// EnumFlag is a flag whose value is a value of an enum of the API, by its name in the core.
type EnumFlag[E apiconv.Enum] struct{ value E }

// Number returns the value, or 0 (unspecified) if none was set.
func (f *EnumFlag[E]) Number() E { return f.value }

// String returns the name of the value, or "" if none was set.
func (f *EnumFlag[E]) String() string { return apiconv.Name(f.value) }

// Set sets the value with a name, in any form that JSON requests may have, such as total-time or OBJECTIVE_TOTAL_TIME.
func (f *EnumFlag[E]) Set(name string) error {
	value, err := apiconv.ParseEnum[E](name)
	if err == nil {
		f.value = value
	}
	return err
}

// Type returns what the help shows for a value.
func (f *EnumFlag[E]) Type() string { return strings.Join(apiconv.Names[E](), "|") }

// EnumName returns the name of an enum's value in flags and tables, for example one-hot for
// FORMULATION_ONE_HOT. It returns the number of an unknown value.
func EnumName(value protoreflect.Enum) string {
	if name := apiconv.Name(value); name != "" {
		return name
	}
	return fmt.Sprint(value.Number())
}

type bytesFlag struct{ value *int64 }

// NewBytesFlag returns a flag that sets value, in bytes: an integer, optionally with a unit, for example
// 64MiB. The current value is the default.
func NewBytesFlag(value *int64) pflag.Value { return bytesFlag{value} }

const byteUnits = " KMGT"

// String returns the value in the largest unit in which it is an integer.
func (f bytesFlag) String() string {
	if f.value == nil {
		return ""
	}
	n, unit := *f.value, 0
	for n != 0 && n%1024 == 0 && unit+1 < len(byteUnits) {
		n, unit = n/1024, unit+1
	}
	return fmt.Sprint(n, []string{"", "KiB", "MiB", "GiB", "TiB"}[unit])
}

// Set sets the number of bytes.
func (f bytesFlag) Set(text string) error {
	shift := 0
	if number, found := strings.CutSuffix(text, "iB"); found && number != "" {
		if unit := strings.IndexByte(byteUnits, number[len(number)-1]); unit > 0 {
			text, shift = number[:len(number)-1], 10*unit
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return errors.New("must be bytes, such as 1073741824, 512MiB or 1GiB")
	}
	*f.value = n << shift
	return nil
}

// Type returns the type shown in the help.
func (bytesFlag) Type() string { return "bytes" }

// variableAnnotation is the annotation with the name of a flag's variable, if it differs from the default.
const variableAnnotation = "elastalloc_variable"

// SetVariable sets the name of a flag's variable. If commands have flags with the same name and different
// meanings, one variable must not set both.
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
				bad = fmt.Errorf("environment variable %s: %w", name, err)
			}
		}
	})
	return bad
}

// describeEnvironment adds the variables with other names than their flags to the help. It adds spaces to
// lists, so that long lists can be wrapped.
func describeEnvironment(root *cobra.Command) {
	for _, command := range commandsOf(root) {
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			if flag.Annotations[variableAnnotation] != nil {
				flag.Usage += " [$" + environmentName(flag) + "]"
			}
			flag.DefValue = strings.ReplaceAll(flag.DefValue, ",", ", ")
		})
	}
}
