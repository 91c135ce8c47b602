package cli

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	elastallocv1 "github.com/elastalloc/elastalloc/proto/elastalloc/v1"
	"github.com/elastalloc/elastalloc/solver"
)

// Programs is the executables of external backends, by backend, as set by flags.
type Programs map[solver.BackendName]string

// AddProgramFlags adds a flag for the executable of each external backend. The flag has the name of the
// backend. Its variable is, for example, ELASTALLOC_CBC.
func AddProgramFlags(flags *pflag.FlagSet, programs *Programs) {
	*programs = make(Programs)
	for name, program := range elastalloc.DefaultPrograms() {
		(*programs)[name] = program
		flags.Var(programFlag{*programs, name}, string(name), fmt.Sprintf("program of the backend %s, a path or a name on the PATH", name))
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

// Set sets the program.
func (f programFlag) Set(program string) error {
	f.programs[f.backend] = program
	return nil
}

// Named converts names from one string type to another.
func Named[To, From ~string](names []From) []To {
	converted := make([]To, len(names))
	for i, name := range names {
		converted[i] = To(name)
	}
	return converted
}

// BackendsFor returns the default backends and, if a known external backend is requested, this backend.
func BackendsFor(requested solver.BackendName) []solver.BackendName {
	names := elastalloc.DefaultBackends()
	if _, external := elastalloc.DefaultPrograms()[requested]; external {
		names = append(names, requested)
	}
	return names
}

// NewInProcess returns an allocator in this process for a request with the given options. It has the default
// backends and, if the options name an external backend, this backend.
func NewInProcess(o *elastallocv1.AllocateOptions, programs Programs) (apiconv.InProcess, error) {
	allocator, err := elastalloc.New(elastalloc.Options{
		Backends: BackendsFor(solver.BackendName(apiconv.Name(o.GetBackend()))),
		Programs: programs,
		// A single decision has no later attempt.
		NoBreakers: true,
	})
	if err != nil {
		return apiconv.InProcess{}, err
	}
	return apiconv.InProcess{Allocator: allocator}, nil
}
