package config

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSettingsAreDocumented checks that docs/reference/controller.md lists every setting of the
// configuration file and no other one, and the defaults that are constants.
func TestSettingsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reference/controller.md")
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]string{
		"unit": DefaultUnit, "objective": string(TotalTime), "remainingIn": string(Seconds),
		"cadence": short(DefaultCadence), "debounce": short(DefaultDebounce), "minInterval": short(DefaultMinInterval),
		"restart": short(DefaultRestart), "settleTimeout": short(DefaultSettleTimeout),
		"nodeGracePeriod": short(DefaultNodeGracePeriod), "maxShrink": fmt.Sprintf("%g%%", 100*DefaultMaxShrink),
		"maxShrinkNodes": fmt.Sprint(DefaultMaxShrinkNodes),
	}
	for section, of := range map[string]reflect.Type{
		"File": reflect.TypeFor[file](), "Prometheus": reflect.TypeFor[prometheusFile](),
		"Pool": reflect.TypeFor[poolFile](), "Group": reflect.TypeFor[Group](),
	} {
		_, table, _ := strings.Cut(string(text), "\n## "+section+"\n")
		table, _, _ = strings.Cut(table, "\n## ")
		var listed []string
		for _, row := range regexp.MustCompile("(?m)^\\| `([a-zA-Z]+)` \\| ([^|]*) \\|").FindAllStringSubmatch(table, -1) {
			listed = append(listed, row[1])
			if want := defaults[row[1]]; section == "Pool" && want != "" && row[2] != "`"+want+"`" {
				t.Errorf("%s: the default of %s is %s; must be %s", section, row[1], row[2], want)
			}
		}
		slices.Sort(listed)
		if settings := settings(of); !slices.Equal(listed, settings) {
			t.Errorf("%s lists %v; must be %v", section, listed, settings)
		}
	}
}

// TestDocumentedSettings checks that the settings on the administrator's page are valid.
func TestDocumentedSettings(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operators/kubernetes-controller.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(kinds:.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) < 2 {
		t.Fatalf("found %d blocks of settings; must be at least 2", len(blocks))
	}
	for _, block := range blocks {
		if _, err := Parse(block[1], []string{"Job"}); err != nil {
			t.Errorf("%v\n%s", err, block[1])
		}
	}
}

// settings returns the names of the fields of a type in a file, also those of embedded types.
func settings(of reflect.Type) []string {
	var names []string
	for _, field := range reflect.VisibleFields(of) {
		if name := field.Tag.Get("json"); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// short returns a duration as a file has it.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		return strings.TrimSuffix(text, "0s")
	}
	return text
}
