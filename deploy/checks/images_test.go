package checks

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestReleaseImages checks that the images of a release consist of the same files, with the same user and the same
// entrypoint, as the images that are built from the source.
func TestReleaseImages(t *testing.T) {
	release := stages(t, "Dockerfile.release")
	if len(release) != 3 {
		t.Fatalf("Dockerfile.release has %d stages; want base, controller and server", len(release))
	}
	for i, source := range []string{"Dockerfile.controller", "Dockerfile"} {
		built := stages(t, source)
		if want := built[len(built)-1]; !slices.Equal(release[i+1], want) {
			t.Errorf("Dockerfile.release has\n%s\n%s has\n%s", strings.Join(release[i+1], "\n"), source, strings.Join(want, "\n"))
		}
	}
}

// stages returns the instructions of each stage of a Dockerfile without FROM. Copied files have no folder of the build.
func stages(t *testing.T, name string) (all [][]string) {
	t.Helper()
	built := regexp.MustCompile(`/src/(bin/)?`)
	for line := range strings.Lines(string(readFile(t, "deploy", name))) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "FROM "):
			all = append(all, nil)
		case line == "" || strings.HasPrefix(line, "#") || len(all) == 0:
		case built.MatchString(line):
			line = strings.Replace(line, "--from=build ", "", 1)
			all[len(all)-1] = append(all[len(all)-1], built.ReplaceAllString(line, ""))
		default:
			all[len(all)-1] = append(all[len(all)-1], strings.Replace(line, "--from=build", "--from=base", 1))
		}
	}
	return all
}
