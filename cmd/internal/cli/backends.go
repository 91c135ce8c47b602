package cli

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// Programs are the executables of external backends that the command line names.
type Programs map[solver.BackendName]string

// AddProgramFlags adds a flag for the executable of each external backend, named as the
// backend is. Their variables are ELASTALLOC_CBC and so on.
func AddProgramFlags(flags *pflag.FlagSet, programs *Programs) {
	*programs = make(Programs)
	for _, spec := range elastalloc.Specs() {
		if spec.External() {
			(*programs)[spec.Name] = spec.Program
			flags.Var(programFlag{*programs, spec.Name}, string(spec.Name),
				fmt.Sprintf("program of the backend %s, a path or a name on the PATH", spec.Name))
		}
	}
}

type programFlag struct {
	programs Programs
	backend  solver.BackendName
}

// String returns the program.
func (f programFlag) String() string { return f.programs[f.backend] }

// Type returns what the help shows for a value.
func (programFlag) Type() string { return "string" }

// Set takes a program.
func (f programFlag) Set(program string) error {
	f.programs[f.backend] = program
	return nil
}

// Named converts names of one kind, such as those in flags, to those of another.
func Named[To, From ~string](names []From) []To {
	converted := make([]To, len(names))
	for i, name := range names {
		converted[i] = To(name)
	}
	return converted
}

// NewInProcess returns what answers a request with the given options in this process:
// an allocator with the default backends and, where the options name an external one,
// that too.
func NewInProcess(o *elastallocv1.AllocateOptions, programs Programs) (apiconv.InProcess, error) {
	allocator, err := elastalloc.New(elastalloc.Options{
		Backends: elastalloc.BackendsFor(solver.BackendName(apiconv.Name(o.GetBackend()))),
		Programs: programs,
		// One decision has no later try.
		NoBreakers: true,
	})
	if err != nil {
		return apiconv.InProcess{}, err
	}
	return apiconv.InProcess{Allocator: allocator}, nil
}
