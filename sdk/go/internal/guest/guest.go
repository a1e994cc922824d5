// Package guest holds the plugin of this program, between the call that registers it and the calls of the host.
package guest

import "windlass.dev/plugin/contract"

// Plugin is the registered plugin.
var Plugin contract.Plugin

// Review is the registered admission.
var Review func(contract.AdmissionRequest) contract.Verdict
