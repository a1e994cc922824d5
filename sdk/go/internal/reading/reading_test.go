package reading

import (
	"errors"
	"testing"
	"time"
)

type item struct {
	Name string `json:"name"`
}

// picky reads only text.
type picky struct{ text string }

func (p *picky) UnmarshalJSON(document []byte) error {
	if document[0] != '"' {
		return errors.New("must be a text")
	}
	p.text = string(document)
	return nil
}

type document struct {
	Number int            `json:"number"`
	List   []item         `json:"list"`
	Map    map[string]int `json:"map"`
	Matrix [][]int        `json:"matrix"`
	Picky  []picky        `json:"picky"`
	Time   *time.Time     `json:"time"`
	item
}

func TestErrorNamesTheInnermostValueThatIsWrong(t *testing.T) {
	for text, expected := range map[string]string{
		`{"number": "1"}`:                              `spec.number: "1" is not a whole number of 64 bits`,
		`{"number": 9223372036854775808}`:              "spec.number: 9223372036854775808 is not a whole number of 64 bits",
		`{"name": 1}`:                                  "spec.name: 1 is not a string",
		`{"list": [{"name": "a"}, {"name": 1}]}`:       "spec.list[1].name: 1 is not a string",
		`{"list": [{"name": "a"}, "b"]}`:               `spec.list[1]: "b" is not an object`,
		`{"list": {}}`:                                 "spec.list: an object is not a list",
		`{"list": {"name": 1}}`:                        "spec.list: an object is not a list",
		`{"map": {"a": 1, "b.c": "x"}}`:                `spec.map.b.c: "x" is not a whole number of 64 bits`,
		`{"map": {"\u00e9\"": true}}`:                  `spec.map.é": true is not a whole number of 64 bits`,
		`{"matrix": [[], [1, 2], [1, 2, "3"]]}`:        `spec.matrix[2][2]: "3" is not a whole number of 64 bits`,
		"{\n  \"list\": [\n    {\"name\": true}\n  ]}": "spec.list[0].name: true is not a string",
		`{"picky": ["a", {"b": 1}]}`:                   "spec.picky[1]: must be a text",
		`{"list": [{"name": 1}], "picky": [1]}`:        "spec.list[0].name: 1 is not a string",
		`{"number": 1, "time": "soon"}`:                `spec.time: parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"`,
		`[1]`:                                          "spec: a list is not an object",
		`"spec"`:                                       `spec: "spec" is not an object`,
		`{"number": `:                                  "spec: unexpected EOF",
	} {
		if err := Decode([]byte(text), "spec", new(document)); err == nil || err.Error() != expected {
			t.Errorf("%s: %v, expected %s", text, err, expected)
		}
	}
	if err := Decode([]byte(`{"list": [{"name": 1}]}`), "", new(document)); err == nil || err.Error() != "list[0].name: 1 is not a string" {
		t.Error(err)
	}
	if err := Decode([]byte("{}"), "spec", nil); err == nil || err.Error() != "spec: json: Unmarshal(nil)" {
		t.Error(err)
	}
}
