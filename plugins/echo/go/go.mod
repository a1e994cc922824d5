// The name that the generated bindings give to the module which they are part of.
module wit_component

go 1.26

// Older than the bindings ask for (v0.2.3), whose checksum could not be verified.
require go.bytecodealliance.org/pkg v0.2.1
