package guard

import (
	"math"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// What a message of Protocol Buffers takes in memory once it is decoded is estimated by
// counting its elements in the wire format before any object is made: two bytes on the wire
// may become an object of hundreds. What the decoder allocates, in bytes, at most: what it discards as its slices grow
// counts as well, until the garbage collector has come by.
const (
	pointerBytes = 48 // of a message in a list: its pointer, in slices that grow by a quarter
	listedBytes  = 40 // of a number in a list that is not packed
	scalarBytes  = 24 // of another number: behind a pointer or in a oneof
	packedBytes  = 12 // of a number in a packed list, whose length the decoder knows
	stringBytes  = 16 // of a string or bytes, beside its content

	// unknownFactor is for what the decoder does not know and keeps as it is, in a slice
	// that grows.
	unknownFactor = 8
)

// shape is what the messages of a type look like.
type shape struct {
	kind   kind
	bytes  int     // of an empty message
	fields []field // by number
}

type field struct {
	message *shape // nil for others
	text    bool   // a string or bytes
	number  bool
	scalar  scalar
	// list says that it is a list of numbers, and packed is the wire type of its elements.
	list   bool
	packed protowire.Type
}

// kind is a kind of messages that are counted, and scalar one of numbers of which the largest
// counts.
type (
	kind   int
	scalar int
)

const (
	otherKind kind = iota
	jobs
	groups
	scenarios
	kinds
)

const (
	otherScalar scalar = iota
	poolNodes
	jobNodes
	steps
	samples
	plan
	scalars
)

// kindOf and scalarOf know messages and fields by their names.
func kindOf(name protoreflect.FullName) kind {
	return map[protoreflect.FullName]kind{
		"elastalloc.v1.Job": jobs, "elastalloc.v1.Group": groups, "elastalloc.v1.Scenario": scenarios,
	}[name]
}

func scalarOf(name protoreflect.FullName) scalar {
	return map[protoreflect.FullName]scalar{
		"elastalloc.v1.Snapshot.total_nodes": poolNodes, "elastalloc.v1.Scenario.total_nodes": poolNodes,
		"elastalloc.v1.Job.max_nodes": jobNodes,
		"elastalloc.v1.Horizon.steps": steps, "elastalloc.v1.ForecastRequest.samples": samples,
		"elastalloc.v1.AllocateOptions.include_plan": plan, "elastalloc.v1.AllocateOptions.certificate": plan,
	}[name]
}

func shapeOf(t protoreflect.MessageType, seen map[protoreflect.FullName]*shape) *shape {
	d := t.Descriptor()
	if s := seen[d.FullName()]; s != nil {
		return s
	}
	s := &shape{kind: kindOf(d.FullName())}
	seen[d.FullName()] = s
	object := int(reflect.TypeOf(t.Zero().Interface()).Elem().Size())
	s.bytes = object + object/8 // Objects are allocated in classes of sizes.
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		f := field{list: fd.IsList(), scalar: scalarOf(fd.FullName())}
		switch fd.Kind() {
		case protoreflect.MessageKind, protoreflect.GroupKind:
			if inner, err := protoregistry.GlobalTypes.FindMessageByName(fd.Message().FullName()); err == nil {
				f.message = shapeOf(inner, seen)
			}
		case protoreflect.StringKind, protoreflect.BytesKind:
			f.text = true
		case protoreflect.DoubleKind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
			f.number, f.packed = true, protowire.Fixed64Type
		case protoreflect.FloatKind, protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind:
			f.number, f.packed = true, protowire.Fixed32Type
		default:
			f.number, f.packed = true, protowire.VarintType
		}
		if missing := int(fd.Number()) + 1 - len(s.fields); missing > 0 {
			s.fields = append(s.fields, make([]field, missing)...)
		}
		s.fields[fd.Number()] = f
	}
	return s
}

// Size is the estimated size of a message.
type Size struct {
	// Bytes are those in memory, at most.
	Bytes int
	// Numbers is how many numbers its lists hold.
	Numbers int
	// Text is the bytes of its strings, and longest those of the longest.
	Text, longest int
	// messages is how many messages of each kind it holds, at any depth.
	messages [kinds]int
	largest  [scalars]int
}

// maxDepth is how deep the decoder goes.
const maxDepth = 100

// count adds a message to a size, up to the first malformed byte, where the decoder ends
// too, and reports whether it is well-formed.
func (s *shape) count(wire []byte, size *Size, depth int) bool {
	size.Bytes += s.bytes
	size.messages[s.kind]++
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return false
		}
		var f field
		if int(number) < len(s.fields) {
			f = s.fields[number]
		}
		if kind != protowire.BytesType {
			length := protowire.ConsumeFieldValue(number, kind, wire[n:])
			if length < 0 {
				return false
			}
			switch {
			case !f.number || kind == protowire.StartGroupType:
				size.Bytes += unknownFactor * (n + length)
			case f.list:
				size.Bytes += listedBytes
				size.Numbers++
			default:
				size.Bytes += scalarBytes
				if value, valid := protowire.ConsumeVarint(wire[n:]); f.scalar != otherScalar && valid > 0 {
					size.largest[f.scalar] = max(size.largest[f.scalar], int(min(value, math.MaxInt32)))
				}
			}
			wire = wire[n+length:]
			continue
		}
		value, length := protowire.ConsumeBytes(wire[n:])
		if length < 0 {
			return false
		}
		wire = wire[n+length:]
		switch {
		case f.message != nil && depth > 0:
			size.Bytes += pointerBytes
			if !f.message.count(value, size, depth-1) {
				return false
			}
		case f.number && f.list:
			elements := countPacked(value, f.packed)
			size.Bytes += elements * packedBytes
			size.Numbers += elements
		case f.text:
			size.Bytes += stringBytes + len(value)*5/4
			size.Text, size.longest = size.Text+len(value), max(size.longest, len(value))
		default:
			size.Bytes += unknownFactor * (n + length)
		}
	}
	return true
}

// countPacked counts the elements of a packed list.
func countPacked(value []byte, kind protowire.Type) int {
	switch kind {
	case protowire.Fixed64Type:
		return len(value) / 8
	case protowire.Fixed32Type:
		return len(value) / 4
	default:
		elements := 0
		for _, b := range value {
			if b < 0x80 { // The last byte of a number.
				elements++
			}
		}
		return elements
	}
}
