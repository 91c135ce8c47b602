// Package protosize estimates the memory of a decoded Protocol Buffers message from its wire format.
// Two bytes on the wire can become an object of hundreds of bytes.
package protosize

import (
	"math"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Upper bounds on the bytes that the decoder allocates, including discarded slices that were too small.
const (
	pointerBytes  = 48 // per message in a list: its pointer, in slices that grow by a quarter
	unpackedBytes = 40 // per number in a list that is not packed
	scalarBytes   = 24 // per other number: behind a pointer or in a oneof
	packedBytes   = 12 // per number in a packed list, whose length the decoder knows
	stringBytes   = 16 // per string or bytes field, in addition to its content

	// unknownFactor is the factor for unknown fields, which the decoder keeps in a slice that grows.
	unknownFactor = 8
)

// MaxCounters is the maximum number of counters.
const MaxCounters = 8

// Size is the estimated size of a message.
type Size struct {
	// Bytes is an upper bound on the memory.
	Bytes int
	// Numbers is the number of elements of its lists of numbers.
	Numbers int
	// StringBytes is the length of its strings together, and LongestString of the longest one, in bytes.
	StringBytes, LongestString int
	// Counters has the values of the counters: the number of messages of a type at any depth, or the
	// largest number in a field.
	Counters [MaxCounters]int
}

// Estimator estimates the sizes of messages of one type. It is safe for concurrent use.
type Estimator struct{ layout *layout }

// New returns an estimator for messages of the type of m. counters has message types and integer fields
// by their full names, each with its index in Size.Counters.
func New(m proto.Message, counters map[protoreflect.FullName]int) *Estimator {
	b := builder{counters: counters, layouts: make(map[protoreflect.FullName]*layout)}
	return &Estimator{b.layout(m.ProtoReflect().Type())}
}

// Size estimates the size of a message from its wire format. It stops at the first malformed byte.
func (e *Estimator) Size(wire []byte) Size {
	var size Size
	e.layout.count(wire, &size, maxDepth)
	return size
}

// noCounter is the index of types and fields without a counter.
const noCounter = -1

// layout describes the messages of a type.
type layout struct {
	counter int     // index in Size.Counters
	bytes   int     // of an empty message
	fields  []field // by number
}

type field struct {
	message *layout // nil for other types
	text    bool    // a string or bytes
	number  bool
	counter int // index in Size.Counters, of a number
	// list reports that the field is a list, and packed is the wire type of its numbers.
	list   bool
	packed protowire.Type
}

// builder builds layouts.
type builder struct {
	counters map[protoreflect.FullName]int
	layouts  map[protoreflect.FullName]*layout
}

func (b *builder) counter(name protoreflect.FullName) int {
	if counter, ok := b.counters[name]; ok {
		return counter
	}
	return noCounter
}

func (b *builder) layout(t protoreflect.MessageType) *layout {
	d := t.Descriptor()
	if l := b.layouts[d.FullName()]; l != nil {
		return l
	}
	l := &layout{counter: b.counter(d.FullName())}
	b.layouts[d.FullName()] = l
	object := int(reflect.TypeOf(t.Zero().Interface()).Elem().Size())
	l.bytes = object + object/8 // The runtime rounds up to size classes.
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		f := field{list: fd.IsList(), counter: b.counter(fd.FullName())}
		switch fd.Kind() {
		case protoreflect.MessageKind, protoreflect.GroupKind:
			if inner, err := protoregistry.GlobalTypes.FindMessageByName(fd.Message().FullName()); err == nil {
				f.message = b.layout(inner)
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
		if missing := int(fd.Number()) + 1 - len(l.fields); missing > 0 {
			l.fields = append(l.fields, make([]field, missing)...)
		}
		l.fields[fd.Number()] = f
	}
	return l
}

// maxDepth is the maximum depth of nested messages, as of the decoder.
const maxDepth = 100

// count adds a message to a size, up to the first malformed byte, and reports whether the message is
// well-formed.
func (l *layout) count(wire []byte, size *Size, depth int) bool {
	size.Bytes += l.bytes
	if l.counter != noCounter {
		size.Counters[l.counter]++
	}
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return false
		}
		f := field{counter: noCounter}
		if int(number) < len(l.fields) {
			f = l.fields[number]
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
				size.Bytes += unpackedBytes
				size.Numbers++
			default:
				size.Bytes += scalarBytes
				if value, valid := protowire.ConsumeVarint(wire[n:]); f.counter != noCounter && valid > 0 {
					size.Counters[f.counter] = max(size.Counters[f.counter], int(min(value, math.MaxInt32)))
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
			size.StringBytes, size.LongestString = size.StringBytes+len(value), max(size.LongestString, len(value))
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
