package jsondoc

import (
	"encoding/json"
	"fmt"
	"strings"
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
			for range Members([]byte(document)) {
				continue
			}
		}
	}
}

func TestMembersAreThoseOfTheContainerAlone(t *testing.T) {
	for container, expected := range map[string]string{
		` {"a" : 1, "b\"": {"c": [2]}, "d":"},"} `: `"a"=1 "b\""={"c": [2]} "d"="}," `,
		`[ [1, 2], {} , null]`:                     `=[1, 2] ={} =null `,
		`{}`:                                       "",
		`"text"`:                                   "",
	} {
		var found strings.Builder
		for name, value := range Members([]byte(container)) {
			fmt.Fprintf(&found, "%s=%s ", name, value)
		}
		if found.String() != expected {
			t.Errorf("%s: %s", container, found.String())
		}
	}
}

func TestDocumentsAreReadAndWrittenExactly(t *testing.T) {
	const text = `{"a":0.10,"b":12345678901234567890,"c":"<&>"}`
	value, err := Tree([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if written, err := Encode(value); err != nil || string(written) != text {
		t.Errorf("%s (%v)", written, err)
	}
	if _, err := Tree([]byte("{} {}")); err == nil {
		t.Error("two values are one document")
	}
}
