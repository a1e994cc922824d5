package main

import windlass "windlass.dev/plugin"

// A web application.
type Spec struct {
	// The image that it runs.
	Image string `json:"image" is:"image" maxLength:"1024"`
	// How many Pods.
	Replicas int `json:"replicas" default:"1" minimum:"1" maximum:"100"`
	// The port on which it listens, and its Service.
	Port int `json:"port" default:"8080" minimum:"1" maximum:"65535"`
	// What each Pod asks of its node.
	Resources Resources `json:"resources" default:"{}"`
	// Environment variables.
	Env []windlass.EnvVar `json:"env" default:"[]" maxItems:"500" listMapKeys:"name"`
	// The host name under which an Ingress makes it known. Without it there is no Ingress.
	IngressHost *string `json:"ingressHost" is:"dns-subdomain"`
}

// What each Pod asks of its node.
type Resources struct {
	// Processors, like 100m.
	CPU windlass.Quantity `json:"cpu" default:"100m"`
	// Memory, like 128Mi.
	Memory windlass.Quantity `json:"memory" default:"128Mi"`
}

// Rules are rules that the API server evaluates; check has the same.
func (Resources) Rules() []windlass.Rule {
	return []windlass.Rule{windlass.Positive("cpu"), windlass.Positive("memory")}
}

// check checks what the schema of the CRD checks by rules, for objects that are older than the schema.
func (s *Spec) check() error {
	if cpu := s.Resources.CPU; !cpu.IsPositive() {
		return windlass.Invalid("spec.resources.cpu", "%s is not more than 0", cpu)
	}
	if memory := s.Resources.Memory; !memory.IsPositive() {
		return windlass.Invalid("spec.resources.memory", "%s is not more than 0", memory)
	}
	return nil
}
