// Package export_windlass_plugin_admission passes reviews of the host to the registered admission. The generated bindings call
// it by this name.
package export_windlass_plugin_admission

import (
	"windlass.dev/plugin/contract"
	"windlass.dev/plugin/internal/guest"
	"windlass.dev/plugin/internal/host"
	bindings "windlass.dev/plugin/internal/wit/admission/windlass_plugin_admission"
	types "windlass.dev/plugin/internal/wit/types"
)

// Review reviews one write.
func Review(request bindings.AdmissionRequest) bindings.Verdict {
	if guest.Review == nil {
		panic("the program has no admission: call admission.Register in a function init")
	}
	labels := make(map[string]string, len(request.NamespaceLabels))
	for _, label := range request.NamespaceLabels {
		labels[label.F0] = label.F1
	}
	verdict := guest.Review(contract.AdmissionRequest{
		Operation:       contract.Operation(request.Operation),
		Kind:            contract.Kind{APIVersion: request.Kind.ApiVersion, Kind: request.Kind.Name},
		Subresource:     request.Subresource.Some(),
		Namespace:       request.Namespace.Some(),
		NamespaceLabels: labels,
		Name:            request.Name.Some(),
		Object:          request.Object.Some(),
		OldObject:       request.OldObject.Some(),
		DryRun:          request.DryRun,
		Username:        request.Username,
		Groups:          request.Groups,
		Config:          request.Config.Some(),
	})
	raw := bindings.Verdict{Decision: bindings.MakeDecisionAllow()}
	for _, warning := range verdict.Warnings {
		raw.Warnings = append(raw.Warnings, host.UTF8(warning))
	}
	switch {
	case verdict.Denied:
		invalid := bindings.Invalid{Message: host.UTF8(verdict.Message)}
		if verdict.Field != "" {
			invalid.Field = types.Some(host.UTF8(verdict.Field))
		}
		raw.Decision = bindings.MakeDecisionDeny(invalid)
	case verdict.Replace != nil:
		raw.Decision = bindings.MakeDecisionReplace(verdict.Replace)
	}
	return raw
}
