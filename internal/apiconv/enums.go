package apiconv

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// Enum is an enum of the API. Its values and those of the core name each other by
// convention: FORMULATION_ONE_HOT is the core's "one-hot". So a value that both have
// needs no line here, and flags show the same names.
type Enum interface {
	~int32
	protoreflect.Enum
}

// prefix returns what the names of an enum's values begin with, such as WAIT_REASON_.
func prefix(d protoreflect.EnumDescriptor) string {
	return strings.TrimSuffix(string(d.Values().ByNumber(0).Name()), "UNSPECIFIED")
}

// coreName returns the core's name of a value of an enum.
func coreName(d protoreflect.EnumValueDescriptor) string {
	name := strings.TrimPrefix(string(d.Name()), prefix(d.Parent().(protoreflect.EnumDescriptor)))
	return strings.ToLower(strings.ReplaceAll(name, "_", "-"))
}

// Name returns the core's name of a number of an enum, "" for 0 and for a number that
// the API does not know.
func Name(number protoreflect.Enum) string {
	if number.Number() == 0 {
		return ""
	}
	value := number.Descriptor().Values().ByNumber(number.Number())
	if value == nil {
		return ""
	}
	return coreName(value)
}

// Names returns the core's names of all values of an enum, 0 left out.
func Names[E Enum]() []string {
	var zero E
	values := zero.Descriptor().Values()
	names := make([]string, 0, values.Len()-1)
	for i := 1; i < values.Len(); i++ {
		names = append(names, coreName(values.Get(i)))
	}
	return names
}

// APINames returns the API's names of all values of an enum, 0 left out.
func APINames(enum protoreflect.EnumDescriptor) []string {
	var names []string
	for i := 1; i < enum.Values().Len(); i++ {
		names = append(names, string(enum.Values().Get(i).Name()))
	}
	return names
}

// byName are the numbers of the values of every enum of the API by the core's names, 0 left
// out.
//
//nolint:gochecknoglobals // It is made once and nothing changes it.
var byName = func() map[protoreflect.EnumDescriptor]map[string]protoreflect.EnumNumber {
	enums := elastallocv1.File_elastalloc_v1_allocator_proto.Enums()
	all := make(map[protoreflect.EnumDescriptor]map[string]protoreflect.EnumNumber, enums.Len())
	for i := range enums.Len() {
		values := enums.Get(i).Values()
		numbers := make(map[string]protoreflect.EnumNumber, values.Len())
		for n := 1; n < values.Len(); n++ {
			numbers[coreName(values.Get(n))] = values.Get(n).Number()
		}
		all[enums.Get(i)] = numbers
	}
	return all
}()

// numbers returns the numbers of an enum's values by the core's names.
func numbers[E Enum]() map[string]protoreflect.EnumNumber {
	var zero E
	return byName[zero.Descriptor()]
}

// Number returns the number of a value of the core, 0 where the API has none.
func Number[E Enum, Value ~string](value Value) E { return E(numbers[E]()[string(value)]) }
