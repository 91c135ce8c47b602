package main

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// enumFlag is a flag whose values are those of an enum of the API, named as
// valueName does. The number is 0, unspecified, while nobody set it.
type enumFlag struct {
	descriptor protoreflect.EnumDescriptor
	number     protoreflect.EnumNumber
}

// String returns the name of the value, nothing while nobody set one.
func (f *enumFlag) String() string {
	if f.number == 0 {
		return ""
	}
	return valueName(f.descriptor, f.number)
}

// Set takes the value of the given name.
func (f *enumFlag) Set(text string) error {
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
func (f *enumFlag) Type() string { return strings.Join(f.names(), "|") }

// names returns the names of all values but the unspecified one.
func (f *enumFlag) names() []string {
	var names []string
	values := f.descriptor.Values()
	for i := 1; i < values.Len(); i++ {
		names = append(names, valueName(f.descriptor, values.Get(i).Number()))
	}
	return names
}

// enumName returns the name of an enum's value as flags and tables have it.
func enumName(value protoreflect.Enum) string {
	return valueName(value.Descriptor(), value.Number())
}

// valueName returns one-hot for FORMULATION_ONE_HOT, and the number itself for a
// value that this program does not know.
func valueName(enum protoreflect.EnumDescriptor, number protoreflect.EnumNumber) string {
	value := enum.Values().ByNumber(number)
	if value == nil {
		return fmt.Sprint(number)
	}
	// The values' prefix is the enum's name, which is one word in this API.
	name := strings.TrimPrefix(string(value.Name()), strings.ToUpper(string(enum.Name()))+"_")
	return strings.ToLower(strings.ReplaceAll(name, "_", "-"))
}
