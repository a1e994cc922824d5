package windlass

import "encoding/binary"

// secret is the kind of Secrets: package kinds imports this one.
var secret = Kind{APIVersion: "v1", Kind: "Secret"}

// Generated is a value that is made once, as a password, and stays: that of a key in the live child Secret of this name in the parent's
// namespace, or what make returns if there is none. A nil make makes 24 random letters and digits. The plugin returns the value in this
// Secret, in every response:
//
//	password := request.Generated("db", "password", nil)
//	secret := windlass.Map{
//		"apiVersion": "v1", "kind": "Secret", "metadata": windlass.Map{"name": "db"},
//		"stringData": windlass.Map{"password": password},
//	}
func (r *Request[Spec, Status]) Generated(name, key string, make func() string) string {
	return r.GeneratedIn(r.Namespace, name, key, make)
}

// GeneratedIn is a value as that of [Request.Generated], in a Secret in another namespace: the Secrets of a cluster-scoped parent.
func (r *Request[Spec, Status]) GeneratedIn(namespace, name, key string, make func() string) string {
	var data map[string][]byte
	r.ChildIn(namespace, secret, name).Get("/data", &data)
	if value, isPresent := data[key]; isPresent {
		return string(value)
	}
	if make == nil {
		return randomText(24)
	}
	return make()
}

// randomText returns random letters and digits.
func randomText(length int) string {
	const characters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	var text []byte
	// Of two bytes, each character is as likely as the others, to 0.1 %.
	for bytes := RandomBytes(2 * length); len(bytes) > 1; bytes = bytes[2:] {
		text = append(text, characters[int(binary.LittleEndian.Uint16(bytes))%len(characters)])
	}
	return string(text)
}
