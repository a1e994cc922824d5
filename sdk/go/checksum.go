package windlass

import (
	"encoding/hex"
	"fmt"
	"strings"

	"windlass.dev/plugin/internal/jsondoc"
	"windlass.dev/plugin/internal/sha256"
)

// unescaped undoes the escapes that Go alone writes.
var unescaped = strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029")

// Checksum is a text of 16 hexadecimal digits that changes when one of the values does, in an annotation of a Pod template: Pods do not
// restart by themselves when a ConfigMap or Secret changes that they read at their start. Values are whatever encodes as JSON, and
// their text is the same in all SDKs. It panics if a value does not encode.
//
//	"annotations": windlass.Map{"example.com/config": windlass.Checksum(configMap["data"])}
func Checksum(values ...any) string {
	document, err := jsondoc.Encode(append([]any{}, values...))
	if err != nil {
		panic(fmt.Sprint("the values of a checksum: ", err))
	}
	// Maps have sorted keys, and structs have not.
	value, _ := jsondoc.Tree(document) // It was just encoded.
	document, _ = jsondoc.Encode(value)
	sum := sha256.Sum([]byte(unescaped.Replace(string(document))))
	return hex.EncodeToString(sum[:8])
}
