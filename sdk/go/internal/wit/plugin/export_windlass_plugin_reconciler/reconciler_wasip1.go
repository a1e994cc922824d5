// Package export_windlass_plugin_reconciler passes calls of the host to the registered plugin. The generated bindings call it
// by this name.
package export_windlass_plugin_reconciler

import (
	"windlass.dev/plugin/contract"
	"windlass.dev/plugin/internal/guest"
	"windlass.dev/plugin/internal/host"
	bindings "windlass.dev/plugin/internal/wit/plugin/windlass_plugin_types"
	types "windlass.dev/plugin/internal/wit/types"
)

// Describe returns the descriptor of the plugin.
func Describe() bindings.Descriptor {
	if guest.Plugin == nil {
		panic("the program has no plugin: call windlass.Register in a function init")
	}
	of := guest.Plugin.Describe()
	if of.Parent.Existing == nil && len(of.Parent.CRD) == 0 {
		panic("the CRD is empty: UPDATE_EXPECT=1 go test ./... writes it (windlasstest.CRD)")
	}
	descriptor := bindings.Descriptor{
		Name:         of.Name,
		Version:      of.Version,
		Description:  of.Description,
		Parent:       bindings.MakeParentCustom(of.Parent.CRD),
		Finalizes:    of.Finalizes,
		Resync:       number(of.Resync),
		ConfigSchema: document(of.ConfigSchema),
	}
	if existing := of.Parent.Existing; existing != nil {
		descriptor.Parent = bindings.MakeParentExisting(bindings.ExistingParent{
			Kind: kind(existing.Kind), Selector: text(existing.Selector),
		})
	}
	for _, rule := range of.Children {
		descriptor.Children = append(descriptor.Children, bindings.ChildRule{Kind: kind(rule.Kind), Update: update(rule.Update)})
	}
	for _, one := range of.Related {
		descriptor.Related = append(descriptor.Related, kind(one))
	}
	for _, metric := range of.Metrics {
		descriptor.Metrics = append(descriptor.Metrics, bindings.Metric{
			Name: metric.Name, Unit: metric.Unit, Description: metric.Description,
			MetricType: bindings.MetricType(metric.Type), Labels: metric.Labels,
		})
	}
	return descriptor
}

// Reconcile returns the desired state of one parent.
func Reconcile(of bindings.Request) types.Result[bindings.Response, bindings.Failure] {
	request := contract.Request{
		Finalize: of.Phase == bindings.PhaseFinalize,
		Parent:   of.Parent,
		Children: observed(of.Children),
		Config:   of.Config.Some(),
	}
	for _, related := range of.Related {
		request.Related = append(request.Related, contract.Related{ID: related.Id, Objects: observed(related.Objects)})
	}
	for _, extension := range of.Extensions {
		request.Extensions = append(request.Extensions, contract.Extension{Name: extension.F0, Value: extension.F1})
	}
	response, failure := guest.Plugin.Reconcile(request)
	if failure != nil {
		return types.Err[bindings.Response](failureOf(failure))
	}
	raw := bindings.Response{
		Children:  response.Children,
		Status:    document(response.Status),
		Requeue:   number(response.Requeue),
		Finalized: response.Finalized,
	}
	for _, event := range response.Events {
		one := bindings.Event{Reason: host.UTF8(event.Reason), Message: host.UTF8(event.Message)}
		if event.Warning {
			one.EventType = bindings.EventTypeWarning
		}
		raw.Events = append(raw.Events, one)
	}
	for _, requirement := range response.Requirements {
		one := bindings.Requirement{
			Id: host.UTF8(requirement.ID), Kind: kind(requirement.Kind), Namespace: text(requirement.Namespace),
			Select: bindings.MakeSelectionName(host.UTF8(requirement.Name)),
		}
		if requirement.ByLabels {
			one.Select = bindings.MakeSelectionLabels(host.UTF8(requirement.Labels))
		}
		raw.Requirements = append(raw.Requirements, one)
	}
	return types.Ok[bindings.Response, bindings.Failure](raw)
}

func failureOf(failure *contract.Failure) bindings.Failure {
	message := host.UTF8(failure.Message)
	switch failure.Kind {
	case contract.Invalid:
		return bindings.MakeFailureInvalid(message)
	case contract.Retry:
		return bindings.MakeFailureRetry(bindings.Retry{Message: message, After: failure.After})
	}
	return bindings.MakeFailureFailed(message)
}

func kind(kind contract.Kind) bindings.Kind {
	return bindings.Kind{ApiVersion: host.UTF8(kind.APIVersion), Name: host.UTF8(kind.Name)}
}

func update(strategy contract.UpdateStrategy) bindings.UpdateStrategy {
	switch strategy.Strategy {
	case contract.Recreate:
		return bindings.MakeUpdateStrategyRecreate()
	case contract.OnDelete:
		return bindings.MakeUpdateStrategyOnDelete()
	case contract.Rolling:
		return bindings.MakeUpdateStrategyRolling(bindings.Rolling{
			Recreate: strategy.RollingRecreate, Conditions: strategy.Conditions,
		})
	}
	return bindings.MakeUpdateStrategyApply()
}

func observed(all []bindings.Observed) []contract.Observed {
	objects := make([]contract.Observed, len(all))
	for index, one := range all {
		objects[index] = contract.Observed{
			Kind:      contract.Kind{APIVersion: one.Kind.ApiVersion, Name: one.Kind.Name},
			Namespace: one.Namespace.Some(), Name: one.Name, Object: one.Object,
		}
	}
	return objects
}

func number(number *uint64) types.Option[uint64] {
	if number == nil {
		return types.None[uint64]()
	}
	return types.Some(*number)
}

func document(document []byte) types.Option[[]byte] {
	if document == nil {
		return types.None[[]byte]()
	}
	return types.Some(document)
}

func text(text string) types.Option[string] {
	if text == "" {
		return types.None[string]()
	}
	return types.Some(host.UTF8(text))
}
