package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDefaultOptions checks that the commands of all pages decide with the defaults, except on the pages about
// the objective of the paper, and that no example has options.
func TestDefaultOptions(t *testing.T) {
	command := regexp.MustCompile(`elastalloc (allocate|explain|whatif|forecast) [^\n` +
		"`" + `]*?-f (\S*examples/\w\S*\.json)[^\n` + "`" + `]*`)
	namesPaper := map[string]bool{"../docs/explanation/allocation-model.md": true, "../docs/start/quickstart.md": true}
	commands := 0
	for _, name := range markdown(t) {
		text := strings.ReplaceAll(read(t, name), "\\\n", " ")
		for _, found := range command.FindAllStringSubmatch(text, -1) {
			commands++
			var request map[string]json.RawMessage
			content, err := os.ReadFile(filepath.Join("..", found[2]))
			if err == nil {
				err = json.Unmarshal(content, &request)
			}
			if err != nil || request["options"] != nil {
				t.Errorf("%s: %s has the options %s (%v); must have the defaults", name, found[2], request["options"], err)
			}
			if regexp.MustCompile(`--(objective|admission)`).MatchString(found[0]) && !namesPaper[filepath.ToSlash(name)] {
				t.Errorf("%s: %s has options; must have the defaults", name, found[0])
			}
		}
	}
	if commands < 15 {
		t.Errorf("found %d commands; must be those of all pages", commands)
	}
}

// TestDefaultsAreNamed checks that the first pages name the objectives and the default admission.
func TestDefaultsAreNamed(t *testing.T) {
	for _, name := range []string{"../README.md", "README.md", "start/overview.md", "schedulers/choose-an-objective.md"} {
		for _, word := range []string{"PROGRESS", "TOTAL_TIME", "START_FIRST"} {
			if !strings.Contains(read(t, name), word) {
				t.Errorf("%s lacks %s", name, word)
			}
		}
	}
}
