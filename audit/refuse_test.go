package audit_test

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/elastalloc/elastalloc/audit"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// TestRefuses compares which requests the check says have to be refused with those that the
// service refuses: drawn ones with one to three fields at and beyond what the API allows.
func TestRefuses(t *testing.T) {
	t.Parallel()
	refused, accepted := 0, 0
	for seed := range uint64(drawn(5000, 100_000)) {
		d := newDrawer(seed)
		request := d.small()
		if d.chance(2) {
			request.Options.BadJobs = elastallocv1.BadJobs_BAD_JOBS_REFUSE
		}
		if s := request.GetSnapshot(); s.GetNodeTypes() == nil && d.chance(8) {
			d.nodeTypes(s)
		}
		for range 1 + d.IntN(3) {
			d.spoil(request.ProtoReflect())
		}
		got := audit.Check(t.Context(), request, &elastallocv1.AllocateResponse{}, audit.Options{Work: 1})
		want := newModel(t, request) == nil
		if says := strings.HasPrefix(got.Reason, "the request has to be refused"); says != want {
			t.Fatalf("seed %d: the service refuses: %v; the check: %v\n%s", seed, want, got.Reason, protojson.Format(request))
		}
		if want {
			refused++
		} else {
			accepted++
		}
	}
	if t.Logf("%d refused, %d accepted", refused, accepted); min(refused, accepted) < 500 {
		t.Error("too few of one kind")
	}
}

// spoil sets a field somewhere in a message to a number, name or length at a limit.
func (d drawer) spoil(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	field := fields.Get(d.IntN(fields.Len()))
	scalar := func() protoreflect.Value {
		integer := []int64{math.MinInt32, -1, 0, 1, 2, 24, 25, 32, math.MaxInt32}[d.IntN(9)]
		number := []float64{-1, -1e-300, 0, 1e-300, 0.5, 1, 5, 5.1, 1e6, 1.1e6, 1e9, 1.1e9, 1e12, 1.1e12, math.Inf(1), math.NaN()}[d.IntN(16)]
		switch field.Kind() {
		case protoreflect.Int32Kind:
			return protoreflect.ValueOfInt32(int32(integer))
		case protoreflect.Int64Kind: // seconds
			return protoreflect.ValueOfInt64([]int64{-1, 0, 1, 365 * 24 * 3600, 365*24*3600 + 1, 9223372036, 9223372037, 315576000000, math.MaxInt64}[d.IntN(9)])
		case protoreflect.DoubleKind:
			return protoreflect.ValueOfFloat64(number)
		case protoreflect.BoolKind:
			return protoreflect.ValueOfBool(integer > 0)
		case protoreflect.EnumKind:
			return protoreflect.ValueOfEnum(protoreflect.EnumNumber(d.IntN(7) - 1))
		default:
			return protoreflect.ValueOfString([]string{"", "job-0", "leaf-0", "top", "new", strings.Repeat("i", 256), strings.Repeat("i", 257)}[d.IntN(7)])
		}
	}
	switch {
	case field.IsList() && field.Message() != nil:
		if list := m.Get(field).List(); list.Len() > 0 {
			d.spoil(list.Get(d.IntN(list.Len())).Message())
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
		d.spoil(m.Mutable(field).Message())
	case field.Message() != nil || d.chance(9):
		m.Clear(field)
	default:
		m.Set(field, scalar())
	}
}
