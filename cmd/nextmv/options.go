package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/elastalloc/elastalloc/internal/apiconv"
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
		Objective   string        `json:"objective,omitempty" usage:"What is maximised: progress or total-time"`
		Admission   string        `json:"admission,omitempty" usage:"Who gets nodes when the minimums do not all fit: fifo, optimized, preemptive or start-first"`
		Plan        bool          `json:"plan,omitempty" usage:"Also return the plan over the horizon"`
	} `json:"solve"`
}

// apply puts the options that are set into a request. The error names every option
// whose value does not exist; the allocator reports bad numbers.
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
		setEnum(&to.Objective, "solve.objective", from.Objective),
		setEnum(&to.Admission, "solve.admission", from.Admission),
	)
}

func setEnum[E apiconv.Enum](field *E, option, name string) error {
	if name == "" {
		return nil
	}
	number := apiconv.Number[E](name)
	if number == 0 {
		return fmt.Errorf("option %s is %q; want one of %s", option, name, strings.Join(apiconv.Names[E](), ", "))
	}
	*field = number
	return nil
}
