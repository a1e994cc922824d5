package reading

import (
	"encoding/json"
	"strconv"
	"strings"

	"windlass.dev/plugin/internal/jsondoc"
)

// culprit is a value that cannot be read.
type culprit struct {
	// path is that of the value, as users write it: .env[1].name.
	path  string
	value []byte
	err   error
}

// narrow returns the innermost value at fault: the first one that cannot be read either if it is alone in the document. The offset in
// an error of encoding/json does not tell it: an error of a method UnmarshalJSON has none, or one that counts from its value. read
// reads a text in the place of the value.
func narrow(found culprit, read func(text string) error) culprit {
	begin, end := "{", "}"
	if strings.HasPrefix(strings.TrimSpace(string(found.value)), "[") {
		begin, end = "[", "]"
	}
	if read(begin+end) != nil {
		return found // The value is no container, or should not be one.
	}
	index := 0
	for name, value := range jsondoc.Members(found.value) {
		before, path := begin, "["+strconv.Itoa(index)+"]"
		if name != nil {
			var text string
			_ = json.Unmarshal(name, &text) // It is part of valid JSON.
			before, path = begin+string(name)+":", "."+text
		}
		readMember := func(text string) error { return read(before + text + end) }
		if err := readMember(string(value)); err != nil {
			return narrow(culprit{found.path + path, value, err}, readMember)
		}
		index++
	}
	return found
}
