package audit_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/audit"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestInvalidRequests checks that the check and the service reject the same requests: random ones with
// one to three fields at and beyond the limits of the API.
func TestInvalidRequests(t *testing.T) {
	t.Parallel()
	refused, accepted := 0, 0
	for seed := range uint64(iterations(1500, 100_000)) {
		d := newGenerator(seed)
		request := d.small()
		if d.chance(2) {
			request.Options.BadJobs = elastallocv1.BadJobs_BAD_JOBS_REFUSE
		}
		if s := request.GetSnapshot(); s.GetNodeTypes() == nil && d.chance(8) {
			d.nodeTypes(s)
		}
		for range 1 + d.IntN(3) {
			d.mutate(request.ProtoReflect())
		}
		want := refuses(t, request)
		if want {
			refused++
		} else {
			accepted++
		}
	}
	if t.Logf("%d refused, %d accepted", refused, accepted); min(refused, accepted) < 500 {
		t.Error("too few cases of one kind")
	}
}

// TestFieldLimits does the same with every field of a request and each of its limits.
func TestFieldLimits(t *testing.T) {
	t.Parallel()
	requests, checks := 0, 0
	for seed := uint64(0); requests < iterations(5, 400); seed++ {
		d := newGenerator(seed)
		request := d.small()
		request.Options.BadJobs = elastallocv1.BadJobs_BAD_JOBS_REFUSE
		if len(request.GetSnapshot().GetJobs()) == 0 || newModel(t, request) == nil {
			continue
		}
		requests++
		d.each(request.ProtoReflect(), func() {
			refuses(t, request)
			checks++
		})
	}
	t.Logf("%d checks", checks)
}

// TestShapes does the same with the largest numbers and depths of groups and node types, with one more,
// and with sizes and speeds per node type.
func TestShapes(t *testing.T) {
	t.Parallel()
	request := func(groups, types int) *elastallocv1.AllocateRequest {
		s := new(elastallocv1.Snapshot)
		for n := range groups {
			s.Groups = append(s.Groups, &elastallocv1.Group{Id: fmt.Sprint(n)})
		}
		for n := range types {
			s.NodeTypes = append(s.NodeTypes, &elastallocv1.NodeType{Id: fmt.Sprint(n), Nodes: 1})
		}
		return &elastallocv1.AllocateRequest{
			Snapshot: s, Options: &elastallocv1.AllocateOptions{Objective: elastallocv1.Objective_OBJECTIVE_TOTAL_TIME},
		}
	}
	tree := func(parents ...string) *elastallocv1.AllocateRequest {
		r := request(len(parents), 0)
		for n, parent := range parents {
			r.Snapshot.Groups[n].ParentId = parent
		}
		return r
	}
	// named returns a request with a job of sizes 1 and 2, with a speed table, and with sizes on types.
	named := func(types []string, sizes ...int32) *elastallocv1.AllocateRequest {
		r := request(0, 2)
		j := &elastallocv1.Job{
			Id: "a", RemainingEta: durationpb.New(time.Hour), AllowedNodes: []int32{1, 2},
			Scaling: &elastallocv1.Scaling{Curve: &elastallocv1.Scaling_Table{Table: &elastallocv1.SpeedTable{Speeds: []float64{1, 2}}}},
		}
		for _, on := range types {
			j.Speeds = append(j.Speeds, &elastallocv1.TypeSpeed{NodeType: on, AllowedNodes: sizes})
		}
		r.Snapshot.Jobs = append(r.Snapshot.Jobs, j)
		return r
	}
	for name, test := range map[string]struct {
		request *elastallocv1.AllocateRequest
		refused bool
	}{
		"sizes on types": {named([]string{"0", "1"}, 2), false}, "a type twice": {named([]string{"0", "0"}, 2), true},
		"a size without a speed": {named([]string{"0"}, 1, 4), true}, "a size twice": {named([]string{"0"}, 1, 1), true},
		"10,000 groups": {request(10_000, 0), false}, "10,001 groups": {request(10_001, 0), true},
		"8 types": {request(0, 8), false}, "9 types": {request(0, 9), true}, "groups on types": {request(1, 2), false},
		"4 deep": {tree("", "0", "1", "2"), false}, "5 deep": {tree("", "0", "1", "2", "3"), true},
		"a circle": {tree("1", "0"), true}, "its own parent": {tree("0"), true}, "no parent": {tree("x"), true},
	} {
		if got := refuses(t, test.request); got != test.refused {
			t.Errorf("%s: refused: %v", name, got)
		}
	}
}

// refuses reports whether the service rejects a request. It fails the test unless the check agrees.
func refuses(t *testing.T, request *elastallocv1.AllocateRequest) bool {
	t.Helper()
	got := audit.Check(t.Context(), request, &elastallocv1.AllocateResponse{}, audit.Options{Work: 1})
	want := newModel(t, request) == nil
	if invalid := strings.HasPrefix(got.Reason, "the request is invalid"); invalid != want {
		t.Fatalf("the service rejects the request: %v; the check: %v\n%s", want, got.Reason, protojson.Format(request))
	}
	return want
}

// values returns numbers and strings at and beyond the limits of the fields of a type.
func values(field protoreflect.FieldDescriptor) (values []protoreflect.Value) {
	switch field.Kind() {
	case protoreflect.Int32Kind:
		for _, v := range []int32{math.MinInt32, -1, 0, 1, 2, 24, 25, 32, math.MaxInt32} {
			values = append(values, protoreflect.ValueOfInt32(v))
		}
	case protoreflect.Int64Kind: // seconds
		for _, v := range []int64{-1, 0, 1, 365 * 24 * 3600, 365*24*3600 + 1, 9223372036, 9223372037, 315576000000, math.MaxInt64} {
			values = append(values, protoreflect.ValueOfInt64(v))
		}
	case protoreflect.DoubleKind:
		for _, v := range []float64{
			-1, -1e-300, 0, 1e-300, 0.5, 1, 5, 5.1, 10, 10.1, 1e6, 1.1e6, 1e9, 1.1e9, 1e12, 1.1e12, math.Inf(1), math.NaN(),
		} {
			values = append(values, protoreflect.ValueOfFloat64(v))
		}
	case protoreflect.BoolKind:
		values = append(values, protoreflect.ValueOfBool(false), protoreflect.ValueOfBool(true))
	case protoreflect.EnumKind:
		for v := range protoreflect.EnumNumber(7) {
			values = append(values, protoreflect.ValueOfEnum(v-1))
		}
	default:
		for _, v := range []string{"", "job-0", "leaf-0", "top", "new", strings.Repeat("i", 256), strings.Repeat("i", 257)} {
			values = append(values, protoreflect.ValueOfString(v))
		}
	}
	return values
}

// settings returns the values of a field. A list has several lengths and repeats a value, or ascends from it if it has sizes.
func settings(m protoreflect.Message, field protoreflect.FieldDescriptor) (settings []protoreflect.Value) {
	if !field.IsList() {
		return values(field)
	}
	for _, v := range values(field) {
		for _, length := range []int{1, 24, 25, 32, 33} {
			list := m.NewField(field).List()
			for n := range length {
				if field.Kind() == protoreflect.Int32Kind {
					list.Append(protoreflect.ValueOfInt32(int32(v.Int()) + int32(n)))
				} else {
					list.Append(v)
				}
			}
			settings = append(settings, protoreflect.ValueOfList(list))
		}
	}
	return settings
}

// each calls visit with every value of every field of a message, and of its submessages; of a list of
// messages, it changes a random one.
func (d generator) each(m protoreflect.Message, visit func()) {
	before := proto.Clone(m.Interface())
	for n := range m.Descriptor().Fields().Len() {
		field := m.Descriptor().Fields().Get(n)
		switch {
		case field.IsList() && field.Message() != nil:
			if list := m.Get(field).List(); list.Len() > 0 {
				d.each(list.Get(d.IntN(list.Len())).Message(), visit)
			}
		case field.Message() != nil:
			d.each(m.Mutable(field).Message(), visit)
		default:
			for _, v := range settings(m, field) {
				m.Set(field, v)
				visit()
			}
		}
		proto.Reset(m.Interface())
		proto.Merge(m.Interface(), before)
	}
}

// mutate sets a random field of a message, or of a submessage, to a limit.
func (d generator) mutate(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	field := fields.Get(d.IntN(fields.Len()))
	scalar := func() protoreflect.Value {
		of := values(field)
		return of[d.IntN(len(of))]
	}
	switch {
	case field.IsList() && field.Message() != nil:
		if list := m.Get(field).List(); list.Len() > 0 {
			d.mutate(list.Get(d.IntN(list.Len())).Message())
		}
	case field.IsList():
		list := m.Mutable(field).List()
		for range []int{1, 1, 1, 25}[d.IntN(4)] {
			list.Append(scalar())
		}
		if d.chance(3) {
			list.Truncate(d.IntN(list.Len()))
		}
	case field.Message() != nil && (d.chance(2) || m.Has(field)):
		d.mutate(m.Mutable(field).Message())
	case field.Message() != nil || d.chance(9):
		m.Clear(field)
	default:
		m.Set(field, scalar())
	}
}
