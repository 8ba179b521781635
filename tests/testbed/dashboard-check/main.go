// Checks Grafana dashboards against the types of Grafana's foundation SDK: no field that it does not know, every value of
// its kind and within its limits, down to the options of each kind of panel and the fields of each query.
//
//	dashboard-check FILE...
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func check(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var strict, board dashboard.Dashboard
	// Of an empty list of errors the SDK makes an error that is not nil.
	if err := strict.UnmarshalJSONStrict(text); err != nil && err.Error() != "" {
		return err
	}
	// The strict way leaves rows out of what it makes.
	if err := json.Unmarshal(text, &board); err != nil {
		return err
	}
	if err := board.Validate(); err != nil && err.Error() != "" {
		return err
	}
	// What Grafana itself would refuse or mix up.
	titles, ids := map[string]bool{}, map[uint32]bool{}
	for _, either := range board.Panels {
		panel := either.Panel
		if panel == nil {
			continue
		}
		if panel.Id == nil || ids[*panel.Id] {
			return fmt.Errorf("a panel has no id, or one that is taken")
		}
		ids[*panel.Id] = true
		if panel.Title == nil || panel.Description == nil || *panel.Description == "" || len(panel.Targets) == 0 {
			return fmt.Errorf("panel %d lacks a title, a description or a query", *panel.Id)
		}
		if titles[*panel.Title+panel.Type] {
			return fmt.Errorf("two panels are named %q", *panel.Title)
		}
		titles[*panel.Title+panel.Type] = true
		if panel.FieldConfig == nil || panel.FieldConfig.Defaults.Unit == nil || panel.FieldConfig.Defaults.Thresholds == nil {
			return fmt.Errorf("panel %q has no unit or no thresholds", *panel.Title)
		}
	}
	// Round trip: what the SDK kept of the text must be all of it.
	kept, err := json.Marshal(board)
	if err != nil {
		return err
	}
	var before, after any
	if err := json.Unmarshal(text, &before); err != nil {
		return err
	}
	if err := json.Unmarshal(kept, &after); err != nil {
		return err
	}
	return lost("", before, after)
}

// lost says which part of the text is not in what was kept of it.
func lost(place string, before, after any) error {
	switch value := before.(type) {
	case map[string]any:
		other, _ := after.(map[string]any)
		for key, inner := range value {
			if found, there := other[key]; there {
				if err := lost(place+"."+key, inner, found); err != nil {
					return err
				}
			} else if !empty(inner) {
				return fmt.Errorf("%s.%s is not known to Grafana", place, key)
			}
		}
	case []any:
		other, _ := after.([]any)
		if len(other) != len(value) {
			return fmt.Errorf("%s has %d parts, %d of them known to Grafana", place, len(value), len(other))
		}
		for i := range value {
			if err := lost(fmt.Sprintf("%s[%d]", place, i), value[i], other[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// empty values are left out of what is kept.
func empty(value any) bool {
	switch value := value.(type) {
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0
	case bool:
		return !value
	}
	return value == nil || value == ""
}

func main() {
	plugins.RegisterDefaultPlugins()
	bad := false
	for _, path := range os.Args[1:] {
		if err := check(path); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			bad = true
		}
	}
	if bad || len(os.Args) < 2 {
		os.Exit(1)
	}
}
