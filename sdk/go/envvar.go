package windlass

// One environment variable.
type EnvVar struct {
	// Its name.
	Name string `json:"name" minLength:"1" maxLength:"253" pattern:"^[-._a-zA-Z][-._a-zA-Z0-9]*$"`
	// Its value.
	Value string `json:"value" default:"" maxLength:"32768"`
}
