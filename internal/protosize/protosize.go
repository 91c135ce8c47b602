// Package protosize estimates what a message of Protocol Buffers takes in memory once it is
// decoded, by counting its elements in the wire format: two bytes may become an object of hundreds.
package protosize

import (
	"math"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// What the decoder allocates, in bytes, at most, with what it discards as its slices grow.
const (
	pointerBytes = 48 // of a message in a list: its pointer, in slices that grow by a quarter
	listedBytes  = 40 // of a number in a list that is not packed
	scalarBytes  = 24 // of another number: behind a pointer or in a oneof
	packedBytes  = 12 // of a number in a packed list, whose length the decoder knows
	stringBytes  = 16 // of a string or bytes, beside its content

	// unknownFactor is for what the decoder does not know and keeps in a slice that grows.
	unknownFactor = 8
)

// MaxCounted is how many things can be counted by name.
const MaxCounted = 8

// Size is the estimated size of a message.
type Size struct {
	Bytes         int // in memory, at most
	Numbers       int // in its lists
	Text, Longest int // bytes of its strings, and of the longest
	// Counted is, for each thing counted by name, how many messages of a type there are at any
	// depth, or the largest number in a field.
	Counted [MaxCounted]int
}

// Counter estimates the sizes of messages of a type. It is safe for concurrent use.
type Counter struct{ shape *shape }

// New returns a counter of messages like m. Counted names types of messages and fields of
// integers, each with its place in Size.Counted.
func New(m proto.Message, counted map[protoreflect.FullName]int) *Counter {
	b := builder{counted: counted, seen: make(map[protoreflect.FullName]*shape)}
	return &Counter{b.shape(m.ProtoReflect().Type())}
}

// Size estimates the size of a message from its wire format.
func (c *Counter) Size(wire []byte) Size {
	var size Size
	c.shape.count(wire, &size, maxDepth)
	return size
}

// notCounted is the place of what is not counted by name.
const notCounted = -1

// shape is what the messages of a type look like.
type shape struct {
	place  int     // in Size.Counted
	bytes  int     // of an empty message
	fields []field // by number
}

type field struct {
	message *shape // nil for others
	text    bool   // a string or bytes
	number  bool
	place   int // in Size.Counted, of a number
	// list says that it is a list of numbers, and packed is the wire type of its elements.
	list   bool
	packed protowire.Type
}

// builder builds the shapes of messages.
type builder struct {
	counted map[protoreflect.FullName]int
	seen    map[protoreflect.FullName]*shape
}

func (b *builder) place(name protoreflect.FullName) int {
	if place, ok := b.counted[name]; ok {
		return place
	}
	return notCounted
}

func (b *builder) shape(t protoreflect.MessageType) *shape {
	d := t.Descriptor()
	if s := b.seen[d.FullName()]; s != nil {
		return s
	}
	s := &shape{place: b.place(d.FullName())}
	b.seen[d.FullName()] = s
	object := int(reflect.TypeOf(t.Zero().Interface()).Elem().Size())
	s.bytes = object + object/8 // Objects are allocated in classes of sizes.
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		f := field{list: fd.IsList(), place: b.place(fd.FullName())}
		switch fd.Kind() {
		case protoreflect.MessageKind, protoreflect.GroupKind:
			if inner, err := protoregistry.GlobalTypes.FindMessageByName(fd.Message().FullName()); err == nil {
				f.message = b.shape(inner)
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

// maxDepth is how deep the decoder goes.
const maxDepth = 100

// count adds a message to a size, up to the first malformed byte, and reports whether it is
// well-formed.
func (s *shape) count(wire []byte, size *Size, depth int) bool {
	size.Bytes += s.bytes
	if s.place != notCounted {
		size.Counted[s.place]++
	}
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return false
		}
		f := field{place: notCounted}
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
				if value, valid := protowire.ConsumeVarint(wire[n:]); f.place != notCounted && valid > 0 {
					size.Counted[f.place] = max(size.Counted[f.place], int(min(value, math.MaxInt32)))
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
			size.Text, size.Longest = size.Text+len(value), max(size.Longest, len(value))
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
