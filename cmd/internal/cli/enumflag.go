package cli

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// EnumFlag is a flag whose values are those of an enum of the API, named as
// EnumName does.
type EnumFlag struct {
	descriptor protoreflect.EnumDescriptor
	number     protoreflect.EnumNumber
}

// NewEnumFlag returns a flag for the values of an enum, which is any value of it.
func NewEnumFlag(enum protoreflect.Enum) EnumFlag {
	return EnumFlag{descriptor: enum.Descriptor()}
}

// Number returns the value that was set, 0, which is unspecified, if none was.
func (f *EnumFlag) Number() protoreflect.EnumNumber { return f.number }

// String returns the name of the value, "" if none was set.
func (f *EnumFlag) String() string {
	if f.number == 0 {
		return ""
	}
	return valueName(f.descriptor, f.number)
}

// Set takes the value of the given name.
func (f *EnumFlag) Set(text string) error {
	values := f.descriptor.Values()
	for i := 1; i < values.Len(); i++ {
		if number := values.Get(i).Number(); valueName(f.descriptor, number) == text {
			f.number = number
			return nil
		}
	}
	return fmt.Errorf("want one of %s", strings.Join(f.names(), ", "))
}

// Type returns what the help shows for a value.
func (f *EnumFlag) Type() string { return strings.Join(f.names(), "|") }

// names returns the names of all values but the unspecified one.
func (f *EnumFlag) names() []string {
	var names []string
	values := f.descriptor.Values()
	for i := 1; i < values.Len(); i++ {
		names = append(names, valueName(f.descriptor, values.Get(i).Number()))
	}
	return names
}

// EnumName returns the name of an enum's value as flags and tables have it: one-hot
// for FORMULATION_ONE_HOT, and the number itself for a value that this program does
// not know.
func EnumName(value protoreflect.Enum) string {
	return valueName(value.Descriptor(), value.Number())
}

// valueName is EnumName for the number of a value.
func valueName(enum protoreflect.EnumDescriptor, number protoreflect.EnumNumber) string {
	value := enum.Values().ByNumber(number)
	if value == nil {
		return fmt.Sprint(number)
	}
	// The values' prefix is the enum's name, which is one word in this API.
	name := strings.TrimPrefix(string(value.Name()), strings.ToUpper(string(enum.Name()))+"_")
	return strings.ToLower(strings.ReplaceAll(name, "_", "-"))
}
