package format

import (
	"regexp"
	"strings"
)

// Node is the default name of the unit of allocation.
const Node = "node"

// InUnits replaces the word "node" in a message by the name of the unit, such as "gpu" or "gpus". It does not change
// quoted text and names such as min_nodes.
func InUnits(text, unit string) string {
	if unit == "" || unit == Node {
		return text
	}
	if singular, plural := strings.CutSuffix(unit, "s"); plural && !strings.HasSuffix(singular, "s") {
		unit = singular
	}
	// Quoted text is matched first, so that it is skipped.
	words := regexp.MustCompile(`"[^"]*"|(?:^|[\s(])(?:nodes?|Nodes?|NODES?)(?:[\s),.;:]|$)`)
	return words.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, `"`) {
			return found
		}
		return strings.NewReplacer("node", unit, "Node", unit, "NODES", strings.ToUpper(unit)+"S", "NODE", strings.ToUpper(unit)).Replace(found)
	})
}
