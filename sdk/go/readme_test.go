package windlass_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The plugin of README.md passes its own tests, and is that of the package's documentation.
func TestPluginOfTheReadmeWorks(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(readme), "```go\n")
	if len(blocks) != 3 {
		t.Fatalf("README.md has %d blocks of Go", len(blocks)-1)
	}
	folder := t.TempDir()
	sdk, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		t.Fatal(err)
	}
	main, _, _ := strings.Cut(blocks[1], "```")
	test, _, _ := strings.Cut(blocks[2], "```")
	for name, text := range map[string]string{
		"main.go":      main,
		"main_test.go": test,
		"crd.json":     "",
		"go.sum":       string(sums),
		"go.mod": "module greeting\n\ngo 1.26\n\nrequire windlass.dev/plugin v0.1.0\n\nrequire go.yaml.in/yaml/v3 v3.0.4 // indirect\n\n" +
			"replace windlass.dev/plugin => " + sdk + "\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, update := range []string{"UPDATE_EXPECT=1", "UPDATE_EXPECT="} {
		command := exec.Command("go", "test", ".")
		command.Dir = folder
		command.Env = append(os.Environ(), update)
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	documentation, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	indented := "//\t" + strings.ReplaceAll(strings.TrimSuffix(main, "\n"), "\n", "\n//\t")
	if !strings.Contains(string(documentation), strings.ReplaceAll(indented, "//\t\n", "//\n")) {
		t.Error("the plugin of doc.go is not that of README.md")
	}
}
