package sha256

import (
	"bytes"
	"crypto/sha256"
	"testing"
)

func TestSumIsThatOfTheStandardLibrary(t *testing.T) {
	for length := range 200 {
		text := bytes.Repeat([]byte{byte(length), 0xff}, length)
		if Sum(text) != sha256.Sum256(text) {
			t.Errorf("%d bytes", len(text))
		}
	}
}
