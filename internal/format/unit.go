package format

import (
	"regexp"
	"strings"
)

// Node is the default name of the unit of allocation.
const Node = "node"

// InUnits returns a text of this project that calls a node by the name of the unit, "GPU" or "node"
// for example. Quoted texts and names such as min_nodes stay as they are.
func InUnits(text, unit string) string {
	if unit == "" || unit == Node {
		return text
	}
	// What is quoted is matched first, so that it is passed over.
	words := regexp.MustCompile(`"[^"]*"|(?:^|[\s(])(?:nodes?|Nodes?|NODES?)(?:[\s),.;:]|$)`)
	return words.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, `"`) {
			return found
		}
		return strings.NewReplacer("node", unit, "Node", unit, "NODES", strings.ToUpper(unit)+"S", "NODE", strings.ToUpper(unit)).Replace(found)
	})
}
