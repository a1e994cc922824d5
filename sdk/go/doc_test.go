package windlass_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// Exported names of packages that plugins import, and exported fields and methods of their types, have comments. A comment on a
// group of constants or variables is one of each.
func TestEveryExportedNameHasAComment(t *testing.T) {
	names := 0
	err := filepath.WalkDir(".", func(folder string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		if entry.Name() == "internal" {
			return fs.SkipDir
		}
		for _, name := range undocumented(t, folder, &names) {
			t.Errorf("%s has no comment", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if names < 200 {
		t.Errorf("only %d names found", names)
	}
}

// undocumented returns the exported names of the package in a folder that have no comment, and counts all.
func undocumented(t *testing.T, folder string, names *int) []string {
	t.Helper()
	files := token.NewFileSet()
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var parsed []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	if len(parsed) == 0 {
		return nil
	}
	of, err := doc.NewFromFiles(files, parsed, folder)
	if err != nil {
		t.Fatal(err)
	}
	var missing []string
	check := func(comment, name string) {
		*names++
		if strings.TrimSpace(comment) == "" {
			missing = append(missing, of.Name+"."+name)
		}
	}
	check(of.Doc, "package")
	values := func(groups []*doc.Value) {
		for _, group := range groups {
			for _, name := range group.Names {
				check(group.Doc+commentOf(group.Decl, name), name)
			}
		}
	}
	functions := func(functions []*doc.Func) {
		for _, function := range functions {
			check(function.Doc, function.Recv+"."+function.Name)
		}
	}
	values(of.Consts)
	values(of.Vars)
	functions(of.Funcs)
	for _, one := range of.Types {
		check(one.Doc, one.Name)
		values(one.Consts)
		values(one.Vars)
		functions(one.Funcs)
		functions(one.Methods)
		for _, field := range fieldsOf(one.Decl) {
			for _, name := range field.Names {
				if name.IsExported() {
					check(field.Doc.Text()+field.Comment.Text(), one.Name+"."+name.Name)
				}
			}
		}
	}
	return missing
}

// commentOf is the comment on one name of a group.
func commentOf(group *ast.GenDecl, name string) string {
	for _, spec := range group.Specs {
		if value, isValue := spec.(*ast.ValueSpec); isValue && value.Names[0].Name == name {
			return value.Doc.Text() + value.Comment.Text()
		}
	}
	return ""
}

// fieldsOf are the fields of a struct, or the methods of an interface.
func fieldsOf(declaration *ast.GenDecl) []*ast.Field {
	for _, spec := range declaration.Specs {
		if of, isType := spec.(*ast.TypeSpec); isType {
			switch of := of.Type.(type) {
			case *ast.StructType:
				return of.Fields.List
			case *ast.InterfaceType:
				return of.Methods.List
			}
		}
	}
	return nil
}
