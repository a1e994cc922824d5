// Package export_windlass_plugin_admission passes reviews of the host to the registered admission. The generated bindings call
// it by this name.
package export_windlass_plugin_admission

import (
	"windlass.dev/plugin/contract"
	"windlass.dev/plugin/internal/guest"
	"windlass.dev/plugin/internal/host"
	bindings "windlass.dev/plugin/internal/wit/admission/windlass_plugin_admission"
)

// Review reviews one write.
func Review(request bindings.AdmissionRequest) bindings.Verdict {
	if guest.Review == nil {
		panic("the program has no admission: call admission.Register in a function init")
	}
	verdict := guest.Review(contract.AdmissionRequest{
		Operation: contract.Operation(request.Operation),
		Object:    request.Object.Some(),
		OldObject: request.OldObject.Some(),
		Username:  request.Username,
		Config:    request.Config.Some(),
	})
	switch {
	case verdict.Denied:
		return bindings.MakeVerdictDeny(host.UTF8(verdict.Message))
	case verdict.Replace != nil:
		return bindings.MakeVerdictReplace(verdict.Replace)
	}
	warnings := make([]string, len(verdict.Warnings))
	for index, warning := range verdict.Warnings {
		warnings[index] = host.UTF8(warning)
	}
	return bindings.MakeVerdictAllow(warnings)
}
