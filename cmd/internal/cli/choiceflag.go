package cli

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/elastalloc/elastalloc/internal/apiconv"
)

// ChoiceFlag is a flag whose value is one of some texts, which the shell completes.
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

// Set takes one of the choices, in upper case as well.
func (f ChoiceFlag) Set(text string) error {
	text = strings.ToLower(text)
	if !slices.Contains(f.Choices, text) {
		return fmt.Errorf("want one of %s", strings.Join(f.Choices, ", "))
	}
	*f.Value = text
	return nil
}

// Type returns what the help shows for a value.
func (f ChoiceFlag) Type() string { return strings.Join(f.Choices, "|") }

// EnumFlag is a flag whose values are those of an enum of the API, by the names that
// the core has for them.
type EnumFlag[E apiconv.Enum] struct{ name string }

// Number returns the value that was set, 0, which is unspecified, if none was.
func (f *EnumFlag[E]) Number() E { return apiconv.Number[E](f.name) }

// String returns the name of the value, "" if none was set.
func (f *EnumFlag[E]) String() string { return f.name }

// Set takes the value of the given name.
func (f *EnumFlag[E]) Set(name string) error { return f.choice().Set(name) }

// Type returns what the help shows for a value.
func (f *EnumFlag[E]) Type() string { return f.choice().Type() }

func (f *EnumFlag[E]) choice() ChoiceFlag { return ChoiceFlag{&f.name, apiconv.Names[E]()} }

// EnumName returns the name of an enum's value as flags and tables have it: one-hot
// for FORMULATION_ONE_HOT, and the number itself for a value that this program does
// not know.
func EnumName(value protoreflect.Enum) string {
	if name := apiconv.Name(value); name != "" {
		return name
	}
	return fmt.Sprint(value.Number())
}
