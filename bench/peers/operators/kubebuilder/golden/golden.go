// Package golden reads the golden cases of the plugins, for the tests of these operators.
package golden

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Case is a request and the expected response.
type Case struct {
	Name     string
	Parent   map[string]any
	Children []map[string]any
	At       time.Time
	Finalize bool
	Answer   struct {
		Children []map[string]any
		Status   map[string]any
	}
}

// Cases are the cases of a plugin with a valid spec: the API server rejects the others by the schema of the CRD.
func Cases(t *testing.T, plugin string) []Case {
	t.Helper()
	files, err := filepath.Glob("../../../../../plugins/" + plugin + "/cases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases of %s: %v", plugin, err)
	}
	var cases []Case
	for _, file := range files {
		if strings.HasSuffix(file, ".answer.yaml") || strings.HasPrefix(filepath.Base(file), "invalid-") {
			continue
		}
		one := Case{Name: filepath.Base(file), At: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		read(t, file, &one)
		read(t, strings.TrimSuffix(file, ".yaml")+".answer.yaml", &one.Answer)
		cases = append(cases, one)
	}
	return cases
}

// Into converts a value to a type by its JSON.
func Into[T any](t *testing.T, value any) *T {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	into := new(T)
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return into
}

// Desired is a desired child without its owner and namespace, which a golden case leaves to the host.
func Desired(t *testing.T, child any) map[string]any {
	t.Helper()
	object := *Into[map[string]any](t, child)
	unstructured.RemoveNestedField(object, "metadata", "ownerReferences")
	unstructured.RemoveNestedField(object, "metadata", "namespace")
	return object
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
