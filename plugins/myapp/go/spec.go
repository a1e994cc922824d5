package main

import windlass "windlass.dev/plugin"

// Desired state of a MyApp.
type Spec struct {
	// Container image of the Pods.
	Image string `json:"image" is:"image" maxLength:"1024"`
	// Desired number of Pods, 1 to 100. Default: 1.
	Replicas int `json:"replicas" default:"1" minimum:"1" maximum:"100"`
	// Port of the container and of the Service, 1 to 65535. Default: 8080.
	Port int `json:"port" default:"8080" minimum:"1" maximum:"65535"`
	// Compute resources that each Pod requests.
	Resources Resources `json:"resources" default:"{}"`
	// Environment variables of the container, at most 500. Their names must be unique.
	Env []windlass.EnvVar `json:"env" default:"[]" maxItems:"500" listMapKeys:"name"`
	// Host name of the Ingress. If unset, there is no Ingress.
	IngressHost *string `json:"ingressHost" is:"dns-subdomain"`
}

// Compute resources that each Pod requests.
type Resources struct {
	// CPU request of each Pod, as in `500m`. Default: 100m.
	CPU windlass.Quantity `json:"cpu" default:"100m"`
	// Memory request of each Pod, as in `256Mi`. Default: 128Mi.
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
