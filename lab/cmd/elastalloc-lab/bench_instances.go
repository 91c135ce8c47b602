package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/elastalloc/elastalloc"
	"github.com/elastalloc/elastalloc/internal/apiconv"
	"github.com/elastalloc/elastalloc/internal/cli"
	"github.com/elastalloc/elastalloc/internal/format"
	"github.com/elastalloc/elastalloc/solver"
)

// instance is a snapshot to compare backends on.
type instance struct {
	// name is the file name without extension, or the path if several files have the same name.
	name, path string
	snapshot   *solver.Snapshot
	options    solver.Options
}

// readInstances reads the snapshots with at most maxJobs jobs. A file that is not a request is
// an error, or skipped with a note on stderr if it is in a folder.
func readInstances(cmd *cobra.Command, paths []string, maxJobs int) ([]instance, error) {
	var instances []instance
	larger := 0
	for _, path := range paths {
		names, isFolder, err := filesOf(path)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			one, err := readInstance(cmd, name)
			switch {
			case err != nil && isFolder:
				fmt.Fprintf(cmd.ErrOrStderr(), "skipped: %v\n", err)
			case err != nil:
				return nil, err
			case len(one.snapshot.Jobs) > maxJobs:
				larger++
			default:
				instances = append(instances, one)
			}
		}
	}
	if larger > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "skipped: %s with more than %d jobs\n", format.Plural(larger, "snapshot"), maxJobs)
	}
	if len(instances) == 0 {
		return nil, errors.New("no snapshot to compare backends on")
	}
	count := make(map[string]int)
	for _, one := range instances {
		count[one.name]++
	}
	for i := range instances {
		if one := &instances[i]; count[one.name] > 1 {
			one.name = one.path
		}
	}
	return instances, nil
}

// filesOf returns the *.json files of a folder, by name, or the path itself if it is
// not a folder.
func filesOf(path string) (names []string, isFolder bool, err error) {
	if path == cli.StandardInput {
		return []string{path}, false, nil
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return []string{path}, false, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, true, err
	}
	for _, entry := range entries {
		if !entry.IsDir() && filepath.Ext(entry.Name()) == ".json" {
			names = append(names, filepath.Join(path, entry.Name()))
		}
	}
	return names, true, nil
}

func readInstance(cmd *cobra.Command, name string) (instance, error) {
	request, err := cli.ReadRequest(cmd, name)
	if err != nil {
		return instance{}, err
	}
	converted, err := apiconv.FromAllocateRequest(request, solver.DefaultMaxJobs)
	if err != nil {
		return instance{}, fmt.Errorf("%s: %w", name, err)
	}
	converted.Snapshot = converted.Snapshot.WithDefaults()
	bad := solver.Validate(converted.Snapshot, converted.Options.WithDefaults(), solver.DefaultMaxJobs, elastalloc.BackendNames())
	if len(bad) > 0 {
		return instance{}, fmt.Errorf("%s: %w", name, &solver.InvalidError{Violations: bad})
	}
	return instance{
		path:     name,
		name:     strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)),
		snapshot: converted.Snapshot,
		options:  converted.Options,
	}, nil
}
