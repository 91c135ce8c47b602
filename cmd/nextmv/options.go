package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
)

// options are the options of the app. The sdk makes a flag of each, such as
// -solve.backend, and reads SOLVE_BACKEND. One at its zero value leaves what the
// request says.
type options struct {
	Solve struct {
		Backend     string        `json:"backend,omitempty" usage:"Backend to ask first: exact, cbc, highs or greedy"`
		Formulation string        `json:"formulation,omitempty" usage:"Model for cbc and highs: one-hot or paper"`
		Budget      time.Duration `json:"budget,omitempty" usage:"Decision budget; 0 leaves that of the request, 900ms by default"`
		Gap         float64       `json:"gap,omitempty" usage:"Stop once proven within this share of the optimum"`
		Mode        string        `json:"mode,omitempty" usage:"Kind of moment: rebalance or fill-idle"`
		Admission   string        `json:"admission,omitempty" usage:"Who gets nodes when the minimums do not all fit: fifo, optimized or preemptive"`
		Plan        bool          `json:"plan,omitempty" usage:"Also return the plan over the horizon"`
	} `json:"solve"`
}

// apply puts the options that are set into a request. The error names every option
// of which there is no such value; what is no fit number, the allocator says.
func (o *options) apply(request *elastallocv1.AllocateRequest) error {
	if request.Options == nil {
		request.Options = new(elastallocv1.AllocateOptions)
	}
	to, from := request.Options, o.Solve
	if from.Budget != 0 {
		to.TimeBudget = durationpb.New(from.Budget)
	}
	if from.Gap != 0 {
		to.RelativeGap = from.Gap
	}
	to.IncludePlan = to.IncludePlan || from.Plan
	return errors.Join(
		setEnum(&to.Backend, "solve.backend", from.Backend),
		setEnum(&to.Formulation, "solve.formulation", from.Formulation),
		setEnum(&to.Mode, "solve.mode", from.Mode),
		setEnum(&to.Admission, "solve.admission", from.Admission),
	)
}

// enum is an enum of the API.
type enum interface {
	~int32
	protoreflect.Enum
}

// setEnum sets a field to the value of the given name, unless that is empty.
func setEnum[E enum](field *E, option, name string) error {
	if name == "" {
		return nil
	}
	var names []string
	values := (*field).Descriptor().Values()
	for i := 1; i < values.Len(); i++ {
		value := E(values.Get(i).Number())
		if enumName(value) == name {
			*field = value
			return nil
		}
		names = append(names, enumName(value))
	}
	return fmt.Errorf("option %s is %q; want one of %s", option, name, strings.Join(names, ", "))
}

// enumName returns one-hot for FORMULATION_ONE_HOT.
func enumName(value protoreflect.Enum) string {
	descriptor := value.Descriptor()
	known := descriptor.Values().ByNumber(value.Number())
	if known == nil {
		return fmt.Sprint(value.Number())
	}
	// The values' prefix is the enum's name, which is one word in this API.
	name := strings.TrimPrefix(string(known.Name()), strings.ToUpper(string(descriptor.Name()))+"_")
	return strings.ToLower(strings.ReplaceAll(name, "_", "-"))
}
