// Command reference writes the documentation of a module's packages as Markdown, one file for each package, as pkg.go.dev shows it.
//
//	reference OUT GO
//
// It runs in the module's folder. GO is the Go program. Internal packages are left out.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/format"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: reference OUT GO")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// source is a package as go list describes it.
type source struct {
	Dir        string
	ImportPath string
	GoFiles    []string
	Module     struct{ Path string }
}

func write(out, goProgram string) error {
	packages, err := list(goProgram)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, of := range packages {
		page, err := newPage(of)
		if err != nil {
			return fmt.Errorf("package %s: %w", of.ImportPath, err)
		}
		page.write()
		if err := os.WriteFile(filepath.Join(out, page.of.Name+".md"), page.text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// list returns the packages of the module in this folder that other modules may import.
func list(goProgram string) ([]source, error) {
	command := exec.Command(goProgram, "list", "-json=Dir,ImportPath,GoFiles,Module", "./...")
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []source
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var of source
		switch err := decoder.Decode(&of); {
		case errors.Is(err, io.EOF):
			return packages, nil
		case err != nil:
			return nil, fmt.Errorf("go list: %w", err)
		}
		if !strings.Contains(of.ImportPath+"/", "/internal/") {
			packages = append(packages, of)
		}
	}
}

// page is the documentation of one package.
type page struct {
	files   *token.FileSet
	of      *doc.Package
	printer *comment.Printer
	text    bytes.Buffer
}

func newPage(of source) (*page, error) {
	p := &page{files: token.NewFileSet()}
	var parsed []*ast.File
	for _, name := range of.GoFiles {
		file, err := parser.ParseFile(p.files, filepath.Join(of.Dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, file)
	}
	var err error
	if p.of, err = doc.NewFromFiles(p.files, parsed, of.ImportPath); err != nil {
		return nil, err
	}
	p.printer = p.of.Printer()
	p.printer.HeadingLevel = 2
	p.printer.DocLinkURL = func(link *comment.DocLink) string {
		anchor := strings.TrimPrefix(link.Recv+"."+link.Name, ".")
		switch {
		case link.ImportPath == "":
			return "#" + anchor
		case link.ImportPath == of.Module.Path:
			return "windlass.md#" + anchor
		case strings.HasPrefix(link.ImportPath, of.Module.Path+"/"):
			return path.Base(link.ImportPath) + ".md#" + anchor
		}
		return "https://pkg.go.dev/" + link.ImportPath + "#" + anchor
	}
	return p, nil
}

func (p *page) write() {
	fmt.Fprintf(&p.text, "# Package %s\n\n", p.of.Name)
	name := ""
	if path.Base(p.of.ImportPath) != p.of.Name {
		name = p.of.Name + " "
	}
	p.code("import " + name + `"` + p.of.ImportPath + `"`)
	p.comment(p.of.Doc)
	p.values("Constants", p.of.Consts)
	p.values("Variables", p.of.Vars)
	p.functions("##", p.of.Funcs)
	for _, of := range p.of.Types {
		p.heading("##", "type "+of.Name, of.Name)
		p.declaration(of.Decl)
		p.comment(of.Doc)
		p.values("", of.Consts)
		p.values("", of.Vars)
		p.functions("###", of.Funcs)
		p.functions("###", of.Methods)
	}
}

func (p *page) values(title string, values []*doc.Value) {
	if title != "" && len(values) > 0 {
		p.heading("##", title, "pkg-"+strings.ToLower(title))
	}
	for _, of := range values {
		for _, name := range of.Names {
			fmt.Fprintf(&p.text, "<a id=\"%s\"></a>", name)
		}
		p.text.WriteString("\n\n")
		p.declaration(of.Decl)
		p.comment(of.Doc)
	}
}

func (p *page) functions(level string, functions []*doc.Func) {
	for _, of := range functions {
		receiver, anchor := "", of.Name
		if of.Recv != "" {
			receiver = "(" + of.Recv + ") "
			kind, _, _ := strings.Cut(strings.TrimPrefix(of.Recv, "*"), "[")
			anchor = kind + "." + of.Name
		}
		p.heading(level, "func "+receiver+of.Name, anchor)
		p.declaration(of.Decl)
		p.comment(of.Doc)
	}
}

func (p *page) heading(level, text, anchor string) {
	if !strings.HasPrefix(anchor, "pkg-") {
		text = "`" + text + "`"
	}
	fmt.Fprintf(&p.text, "%s %s {#%s}\n\n", level, text, anchor)
}

// declaration writes the exported part of a declaration.
func (p *page) declaration(of ast.Decl) {
	var text bytes.Buffer
	if err := format.Node(&text, p.files, of); err != nil {
		// Only a declaration that was not parsed cannot be formatted.
		panic(err)
	}
	p.code(text.String())
}

func (p *page) code(text string) {
	fmt.Fprintf(&p.text, "```go\n%s\n```\n\n", text)
}

func (p *page) comment(text string) {
	p.text.Write(p.printer.Markdown(p.of.Parser().Parse(text)))
	p.text.WriteString("\n")
}
