package jsondoc

import (
	"encoding/json"
	"testing"
)

const pod = ` { "metadata" : {"name":"web","annotations":{"example.com/a~b":"}\"{","a\"b":"escaped"}},
	"spec": { "containers": [ {"name":"a","args":["]", "x,y"]}, {"name":"b","image":"b:1"} ], "priority":-1.5e3 },
	"empty": {}, "list": [], "nothing": null, "last":true}`

func TestPointerFindsValue(t *testing.T) {
	for pointer, expected := range map[string]string{
		"/metadata/name": `"web"`,
		"/metadata/annotations/example.com~1a~0b": `"}\"{"`,
		`/metadata/annotations/a"b`:               `"escaped"`,
		"/spec/containers/0/args/0":               `"]"`,
		"/spec/containers/0/args/1":               `"x,y"`,
		"/spec/containers/1/image":                `"b:1"`,
		"/spec/priority":                          "-1.5e3",
		"/empty":                                  "{}",
		"/list":                                   "[]",
		"/nothing":                                "null",
		"/last":                                   "true",
	} {
		if found := string(At([]byte(pod), pointer)); found != expected {
			t.Errorf("%s: %q, expected %q", pointer, found, expected)
		}
	}
	if !json.Valid(At([]byte(pod), "")) {
		t.Error("the empty pointer is not the whole document")
	}
}

func TestPointerToMissingValueFindsNothing(t *testing.T) {
	for _, pointer := range []string{
		"metadata", "/", "/name", "/spec/containers/2", "/spec/containers/name", "/spec/containers/-", "/spec/containers/-1", "/spec/containers/+1",
		"/metadata/name/0", "/spec/priority/0", "/empty/x", "/list/0", "/last/x",
	} {
		if found := At([]byte(pod), pointer); found != nil {
			t.Errorf("%s: %s", pointer, found)
		}
	}
}

func TestTruncatedDocumentEndsTheSearch(t *testing.T) {
	for _, document := range []string{"", "{", "[", `{"a`, `{"a"`, `{"a":`, `{"a":{"b"`, "[1, {", `["\`} {
		for _, pointer := range []string{"/a/b", "/b", "/1/x", "/2"} {
			if found := At([]byte(document), pointer); found != nil {
				t.Errorf("%s %s: %s", document, pointer, found)
			}
			Locate([]byte(document), 99)
		}
	}
}

func TestPathNamesTheInvalidValue(t *testing.T) {
	type item struct {
		Name string `json:"name"`
	}
	for document, expected := range map[string]string{
		`{"number": "1"}`:                              "number",
		`{"list": [{"name": "a"}, {"name": 1}]}`:       "list[1].name",
		`{"list": [{"name": "a"}, "b"]}`:               "list[1]",
		`{"list": {}}`:                                 "list",
		`{"map": {"a": 1, "b.c": "x"}}`:                "map.b.c",
		`{"matrix": [[], [1, 2], [1, 2, "3"]]}`:        "matrix[2][2]",
		"{\n  \"list\": [\n    {\"name\": true}\n  ]}": "list[0].name",
	} {
		var into struct {
			Number int            `json:"number"`
			List   []item         `json:"list"`
			Map    map[string]int `json:"map"`
			Matrix [][]int        `json:"matrix"`
		}
		err, isType := json.Unmarshal([]byte(document), &into).(*json.UnmarshalTypeError)
		if !isType {
			t.Fatalf("%s: no error of a type", document)
		}
		if path, _ := Locate([]byte(document), int(err.Offset)); path != expected {
			t.Errorf("%s: %q, expected %q (offset %d)", document, path, expected, err.Offset)
		}
	}
}
