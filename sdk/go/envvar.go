package windlass

// Environment variable of a container.
type EnvVar struct {
	// Name of the environment variable.
	Name string `json:"name" minLength:"1" maxLength:"253" pattern:"^[-._a-zA-Z][-._a-zA-Z0-9]*$"`
	// Value of the environment variable. Default: empty.
	Value string `json:"value" default:"" maxLength:"32768"`
}
