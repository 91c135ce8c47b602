package audit

import (
	"google.golang.org/protobuf/reflect/protoreflect"
)

// known returns an error where a message has fields that the check does not know, such as
// those of a newer version, or does not count with: they may change what is asked for.
func known(m protoreflect.Message) (err error) {
	if len(m.GetUnknown()) > 0 {
		return leaveOpen("%s has fields that the check does not know", m.Descriptor().Name())
	}
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Name() == "eta_error" || field.Name() == "work_done":
			err = leaveOpen("%s.%s is set; the check does not count with it", m.Descriptor().Name(), field.Name())
		case field.Message() == nil:
		case field.IsList():
			for n := 0; n < v.List().Len() && err == nil; n++ {
				err = known(v.List().Get(n).Message())
			}
		default:
			err = known(v.Message())
		}
		return err == nil
	})
	return err
}
