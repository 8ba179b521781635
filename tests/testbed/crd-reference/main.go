// Writes the reference of a resource from its CustomResourceDefinition, as Markdown: one table for each object, with every
// field's type, meaning and default, and what its rules refuse.
//
//	crd-reference FILE > reference.md
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"

	"gopkg.in/yaml.v3"
)

type schema struct {
	Type        string    `yaml:"type"`
	Format      string    `yaml:"format"`
	Description string    `yaml:"description"`
	Default     any       `yaml:"default"`
	Enum        []string  `yaml:"enum"`
	Minimum     *float64  `yaml:"minimum"`
	Maximum     *float64  `yaml:"maximum"`
	Required    []string  `yaml:"required"`
	Properties  yaml.Node `yaml:"properties"` // in the order of the file
	Items       *schema   `yaml:"items"`
	Rules       []rule    `yaml:"x-kubernetes-validations"`
	Unknown     bool      `yaml:"x-kubernetes-preserve-unknown-fields"`
}

type rule struct {
	Message string `yaml:"message"`
	Field   string `yaml:"fieldPath"`
}

type definition struct {
	Spec struct {
		Group string `yaml:"group"`
		Names struct {
			Kind       string   `yaml:"kind"`
			ShortNames []string `yaml:"shortNames"`
		} `yaml:"names"`
		Versions []struct {
			Name   string `yaml:"name"`
			Schema struct {
				Root schema `yaml:"openAPIV3Schema"`
			} `yaml:"schema"`
		} `yaml:"versions"`
	} `yaml:"spec"`
}

type field struct {
	name string
	schema
}

func (s schema) fields() []field {
	var found []field
	for i := 0; i+1 < len(s.Properties.Content); i += 2 {
		one := field{name: s.Properties.Content[i].Value}
		if err := s.Properties.Content[i+1].Decode(&one.schema); err != nil {
			fail(err)
		}
		found = append(found, one)
	}
	return found
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "crd-reference:", err)
	os.Exit(1)
}

// oneLine for a cell of a table.
func oneLine(text string) string {
	return strings.NewReplacer("|", "\\|", "<", "\\<").Replace(strings.Join(strings.Fields(text), " "))
}

func (s schema) typeName() string {
	switch {
	case s.Type == "array" && s.Items != nil:
		return "list of " + s.Items.typeName()
	case len(s.Enum) > 0:
		return "`" + strings.Join(s.Enum, "` \\| `") + "`"
	case s.Format == "date-time":
		return "time"
	}
	return s.Type
}

func (s schema) limits() string {
	switch {
	case s.Minimum != nil && s.Maximum != nil:
		return fmt.Sprintf("%.0f to %.0f", *s.Minimum, *s.Maximum)
	case s.Minimum != nil:
		return fmt.Sprintf("at least %.0f", *s.Minimum)
	}
	return ""
}

func (s schema) defaultText() string {
	switch value := s.Default.(type) {
	case nil, map[string]any: // an object's default is that of its fields
		return ""
	default:
		return fmt.Sprintf("`%v`", value)
	}
}

// described: much of the template is typed for checks alone, and described by Kubernetes.
func (s schema) described() bool {
	if len(s.Rules) > 0 {
		return true
	}
	for _, one := range s.fields() {
		if one.Description != "" || one.described() {
			return true
		}
	}
	return false
}

func object(path string, s schema) {
	fmt.Printf("\n## %s\n\n", path)
	if s.Description != "" {
		fmt.Printf("%s\n\n", strings.Join(strings.Fields(s.Description), " "))
	}
	fmt.Print("| field | type | meaning | default |\n|---|---|---|---|\n")
	required := map[string]bool{}
	for _, name := range s.Required {
		required[name] = true
	}
	for _, one := range s.fields() {
		meaning := oneLine(one.Description)
		if limits := one.limits(); limits != "" {
			meaning = strings.TrimSpace(meaning + " (" + limits + ")")
		}
		fallback := one.defaultText()
		if required[one.name] {
			fallback = "required"
		}
		fmt.Printf("| `%s` | %s | %s | %s |\n", one.name, one.typeName(), meaning, fallback)
	}
	if len(s.Rules) > 0 {
		fmt.Print("\nRefused with these words:\n\n")
		seen := map[string][]string{}
		var order []string
		for _, r := range s.Rules {
			text := strings.Join(strings.Fields(r.Message), " ")
			if _, there := seen[text]; !there {
				order = append(order, text)
			}
			if r.Field != "" {
				seen[text] = append(seen[text], "`"+strings.TrimPrefix(r.Field, ".")+"`")
			} else {
				seen[text] = append(seen[text], "")
			}
		}
		for _, text := range order {
			names := strings.Trim(strings.Join(seen[text], ", "), ", ")
			if names != "" {
				names += ": "
			}
			fmt.Printf("- %s%s\n", names, strings.ReplaceAll(text, "<", "\\<"))
		}
	}
	for _, one := range s.fields() {
		inner := one.schema
		name := path + "." + one.name
		if inner.Items != nil {
			inner, name = *inner.Items, name+"[]"
			if inner.Description == "" {
				inner.Description = one.Description
			}
		}
		if len(inner.Properties.Content) > 0 && inner.described() {
			object(name, inner)
		}
	}
}

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("give the file of a CustomResourceDefinition"))
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		fail(err)
	}
	var crd definition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		fail(err)
	}
	names := crd.Spec.Names
	sort.Strings(names.ShortNames)
	for _, version := range crd.Spec.Versions {
		fmt.Printf("# %s: the manifest\n\n", names.Kind)
		fmt.Printf("`apiVersion: %s/%s`, `kind: %s`; `kubectl get %s`. Unknown fields are refused.\n", crd.Spec.Group,
			version.Name, names.Kind, strings.Join(names.ShortNames, ", "))
		fmt.Println("Written from the CRD by charts/sync.sh: edit manifests/crd/ddpjob.yaml.")
		for _, one := range version.Schema.Root.fields() {
			if one.name == "spec" || one.name == "status" {
				object(one.name, one.schema)
			}
		}
	}
}
