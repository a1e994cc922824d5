package windlass_test

import (
	"bytes"
	"encoding/base64"
	"regexp"
	"testing"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/kinds"
	"windlass.dev/plugin/windlasstest"
)

func TestChecksumIsThatOfAllSDKs(t *testing.T) {
	type unsorted struct {
		B []string `json:"b"`
		A int      `json:"a"`
	}
	for expected, values := range map[string][]any{
		"9575cb8196f08d95": {unsorted{B: []string{"x"}, A: 1}},
		"4f53cda18c2baa0c": nil,                           // []
		"281544d717499918": {"<\u2028\\u2029", nil, "\b"}, // ["<\u2028\\u2029",null,"\b"], with the first escape as a character
	} {
		if sum := windlass.Checksum(values...); sum != expected {
			t.Errorf("%v: %s", values, sum)
		}
	}
	if windlass.Checksum(windlass.Map{"b": []any{"x"}, "a": 1}) != windlass.Checksum(unsorted{B: []string{"x"}, A: 1}) {
		t.Error("a map has another checksum than a struct")
	}
}

func TestGeneratedValueStaysOnceItsSecretIsThere(t *testing.T) {
	keeper := plugin(func(r *request) (*response, error) {
		data := windlass.Map{
			"password": r.Generated("db", "password", nil), "user": r.Generated("db", "user", func() string { return "made" }),
		}
		return &response{Children: []any{
			windlass.Map{"apiVersion": "v1", "kind": "Secret", "metadata": windlass.Map{"name": "db"}, "stringData": data},
		}}, nil
	})
	keeper.Children = []windlass.ChildRule{{Kind: kinds.Secret}}
	prepared := windlasstest.Call(keeper, windlasstest.YAML(parent))
	run := func() (password, user string) {
		answer, err := prepared.Run()
		if err != nil {
			t.Fatal(err)
		}
		data := answer.Children[0]["stringData"].(map[string]any)
		return data["password"].(string), data["user"].(string)
	}
	password, user := run()
	if !regexp.MustCompile(`^[A-Za-z0-9]{24}$`).MatchString(password) || user != "made" {
		t.Error(password, user)
	}
	live := windlasstest.YAML(`{apiVersion: v1, kind: Secret, metadata: {name: db, namespace: shop}}`)
	live["data"] = map[string]any{"password": base64.StdEncoding.EncodeToString([]byte(password))}
	prepared.Children(live).Random(bytes.Repeat([]byte{7}, 48))
	if again, user := run(); again != password || user != "made" {
		t.Errorf("%s became %s, and %s", password, again, user)
	}
}
