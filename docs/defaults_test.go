package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRecommendedOptions checks that the commands of all pages decide with the recommended options, except on
// the pages about the model of the paper.
func TestRecommendedOptions(t *testing.T) {
	const flags = "--objective total-time --admission start-first"
	command := regexp.MustCompile(`elastalloc (allocate|explain|whatif|forecast) [^\n` + "`" + `]*?-f (\S*examples/\w\S*\.json)[^\n` + "`" + `]*`)
	ofThePaper := map[string]bool{"../docs/explanation/allocation-model.md": true, "../docs/explanation/optimality-proofs.md": true}
	commands := 0
	for _, name := range markdown(t) {
		text := strings.ReplaceAll(read(t, name), "\\\n", " ")
		for _, found := range command.FindAllStringSubmatch(text, -1) {
			commands++
			var request struct {
				Options struct{ Objective, Admission string }
			}
			content, err := os.ReadFile(filepath.Join("..", found[2]))
			if err == nil {
				err = json.Unmarshal(content, &request)
			}
			recommended := request.Options.Objective == "OBJECTIVE_TOTAL_TIME" && request.Options.Admission == "ADMISSION_START_FIRST"
			if err != nil || !recommended && !strings.Contains(found[0], flags) && !ofThePaper[filepath.ToSlash(name)] {
				t.Errorf("%s: %s decides with the options %+v (%v); must be the recommended ones, or have %s", name, found[0], request.Options, err, flags)
			}
		}
	}
	if commands < 15 {
		t.Errorf("found %d commands; must be those of all pages", commands)
	}
}

// TestDefaultsAreNamed checks that the first pages name the default objective and the recommended options.
func TestDefaultsAreNamed(t *testing.T) {
	for _, name := range []string{"../README.md", "README.md", "start/overview.md", "schedulers/choose-an-objective.md"} {
		for _, word := range []string{"PROGRESS", "TOTAL_TIME", "START_FIRST"} {
			if !strings.Contains(read(t, name), word) {
				t.Errorf("%s lacks %s", name, word)
			}
		}
	}
}
