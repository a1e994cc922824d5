// Package jsondoc finds values in JSON documents without parsing what lies beside them, and reads and writes whole documents
// without changing a number or a character.
package jsondoc

import (
	"encoding/json"
	"iter"
	"strconv"
	"strings"
)

// At returns the text of the value at a JSON pointer (RFC 6901: /spec/containers/0/image), or nil if the document has no such
// value. The document must be valid JSON.
func At(document []byte, pointer string) []byte {
	if pointer == "" {
		return document
	}
	rest, isPointer := strings.CutPrefix(pointer, "/")
	if !isPointer {
		return nil
	}
	for token := range strings.SplitSeq(rest, "/") {
		if document = member(document, token); document == nil {
			return nil
		}
	}
	return document
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// member returns the member of an object by its name, or the item of a list by its index.
func member(container []byte, token string) []byte {
	cursor := cursor{text: container}
	first := cursor.peek()
	cursor.at++
	switch first {
	case '{':
		if strings.Contains(token, "~") {
			token = unescape.Replace(token)
		}
		for {
			name := cursor.value()
			if name == nil {
				return nil
			}
			value := cursor.value()
			if text(name) == token {
				return value
			}
		}
	case '[':
		index, err := strconv.ParseUint(token, 10, 64) // It accepts no sign.
		if err != nil {
			return nil
		}
		for ; index > 0; index-- {
			if cursor.value() == nil {
				return nil
			}
		}
		return cursor.value()
	}
	return nil
}

// text decodes a JSON string.
func text(name []byte) string {
	if len(name) >= 2 && !strings.Contains(string(name), `\`) {
		return string(name[1 : len(name)-1])
	}
	var decoded string
	if json.Unmarshal(name, &decoded) != nil {
		return ""
	}
	return decoded
}

// Members are the values of an object with their names in quotes, or the items of a list without names. Other values have none.
func Members(container []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		cursor := cursor{text: container}
		first := cursor.peek()
		if first != '{' && first != '[' {
			return
		}
		cursor.at++
		for {
			var name []byte
			if first == '{' {
				if name = cursor.value(); name == nil {
					return
				}
			}
			value := cursor.value()
			if value == nil || !yield(name, value) {
				return
			}
		}
	}
}

// cursor walks the names and values of one object, or the items of one list.
type cursor struct {
	text []byte
	at   int
}

// peek returns the first byte of the next name or value; 0 at the end of the text.
func (c *cursor) peek() byte {
	for ; c.at < len(c.text); c.at++ {
		switch b := c.text[c.at]; b {
		case ' ', '\n', '\r', '\t', ',', ':':
		default:
			return b
		}
	}
	return 0
}

// value returns the text of the next name or value; nil at the end of the container.
func (c *cursor) value() []byte {
	first := c.peek()
	start := c.at
	switch first {
	case 0, '}', ']':
		return nil
	case '"':
		c.skipString()
	case '{', '[':
		c.skipContainer()
	default:
		for c.at < len(c.text) && !strings.ContainsRune(",]} \n\r\t", rune(c.text[c.at])) {
			c.at++
		}
	}
	return c.text[start:c.at]
}

func (c *cursor) skipString() {
	for c.at++; c.at < len(c.text); c.at++ {
		switch c.text[c.at] {
		case '\\':
			c.at++
		case '"':
			c.at++
			return
		}
	}
	c.at = len(c.text)
}

func (c *cursor) skipContainer() {
	for depth := 0; c.at < len(c.text); {
		switch c.text[c.at] {
		case '"':
			c.skipString()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		c.at++
		if depth == 0 {
			return
		}
	}
}
