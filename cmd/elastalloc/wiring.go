package main

import (
	"github.com/spf13/pflag"

	"github.com/elastalloc/elastalloc/cmd/internal/wiring"
)

// addProgramFlags adds the flags that name the external solvers' executables.
// Their variables are ELASTALLOC_CBC and ELASTALLOC_HIGHS.
func addProgramFlags(flags *pflag.FlagSet, programs *wiring.Programs) {
	*programs = wiring.DefaultPrograms()
	flags.StringVar(&programs.CBC, "cbc", programs.CBC, "program of the backend cbc, a path or a name on the PATH")
	flags.StringVar(&programs.HiGHS, "highs", programs.HiGHS, "program of the backend highs, a path or a name on the PATH")
}
