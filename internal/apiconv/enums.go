package apiconv

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// Enum is an enum of the API. The core's names of its values are derived from the API's names:
// FORMULATION_ONE_HOT is "one-hot" in the core and in flags.
type Enum interface {
	~int32
	protoreflect.Enum
}

// prefix returns the common prefix of the names of an enum's values, such as WAIT_REASON_.
func prefix(d protoreflect.EnumDescriptor) string {
	return strings.TrimSuffix(string(d.Values().ByNumber(0).Name()), "UNSPECIFIED")
}

// coreName returns the core's name of an enum value.
func coreName(d protoreflect.EnumValueDescriptor) string {
	name := strings.TrimPrefix(string(d.Name()), prefix(d.Parent().(protoreflect.EnumDescriptor)))
	return strings.ToLower(strings.ReplaceAll(name, "_", "-"))
}

// Name returns the core's name of an enum number, "" for 0 and for unknown numbers.
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

// Names returns the core's names of all values of an enum except 0.
func Names[E Enum]() []string {
	var zero E
	values := zero.Descriptor().Values()
	names := make([]string, 0, values.Len()-1)
	for i := 1; i < values.Len(); i++ {
		names = append(names, coreName(values.Get(i)))
	}
	return names
}

// FindValue returns the API's name of the enum value that a user means: OBJECTIVE_TOTAL_TIME for this name, for
// TOTAL_TIME and for total-time, in any case, with - or _. It returns "" if there is no such value.
func FindValue(enum protoreflect.EnumDescriptor, name string) protoreflect.Name {
	name = strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	for _, full := range []string{name, prefix(enum) + name} {
		if value := enum.Values().ByName(protoreflect.Name(full)); value != nil {
			return value.Name()
		}
	}
	return ""
}

// ParseEnum returns the value of an enum that a user means, by a name that FindValue accepts. The error for an unknown name
// lists the core's names of all values.
func ParseEnum[E Enum](name string) (E, error) {
	var zero E
	if value := zero.Descriptor().Values().ByName(FindValue(zero.Descriptor(), name)); value != nil && value.Number() != 0 {
		return E(value.Number()), nil
	}
	return 0, fmt.Errorf("must be one of %s", strings.Join(Names[E](), ", "))
}

// APINames returns the API's names of all values of an enum except 0.
func APINames(enum protoreflect.EnumDescriptor) []string {
	var names []string
	for i := 1; i < enum.Values().Len(); i++ {
		names = append(names, string(enum.Values().Get(i).Name()))
	}
	return names
}

// byName has the numbers of the values of every enum of the API, except 0, by the core's names.
//
//nolint:gochecknoglobals // Constant.
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

// numbers returns the numbers of the values of an enum by the core's names.
func numbers[E Enum]() map[string]protoreflect.EnumNumber {
	var zero E
	return byName[zero.Descriptor()]
}

// Number returns the number of a value of the core, or 0 if the API has no such value.
func Number[E Enum, Value ~string](value Value) E { return E(numbers[E]()[string(value)]) }
