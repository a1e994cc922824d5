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
		Name:            of.Name,
		Version:         of.Version,
		Description:     of.Description,
		Parent:          parent(of.Parent),
		Finalizes:       of.Finalizes,
		OrderedDeletion: of.OrderedDeletion,
		ReadyMeans:      bindings.ReadyMeans(of.ReadyMeans),
		Clock:           of.Clock,
		Resync:          optional(of.Resync),
		ConfigSchema:    document(of.ConfigSchema),
	}
	for _, rule := range of.Children {
		descriptor.Children = append(descriptor.Children, bindings.ChildRule{
			Kind: kind(rule.Kind), Update: update(rule.Update), Optional: rule.Optional,
		})
	}
	for _, rule := range of.Related {
		descriptor.Related = append(descriptor.Related, bindings.RelatedRule{Kind: kind(rule.Kind), Optional: rule.Optional})
	}
	for _, metric := range of.Metrics {
		descriptor.Metrics = append(descriptor.Metrics, bindings.Metric{
			Name: metric.Name, Unit: metric.Unit, Description: metric.Description,
			MetricType: bindings.MetricType(metric.Type), Labels: metric.Labels,
		})
	}
	return descriptor
}

func parent(of contract.Parent) bindings.Parent {
	selector := bindings.ParentSelector{Labels: text(of.Selector.Labels), Annotations: text(of.Selector.Annotations)}
	if of.Existing != nil {
		return bindings.MakeParentExisting(bindings.ExistingParent{Kind: kind(*of.Existing), Selector: selector})
	}
	return bindings.MakeParentCustom(bindings.CustomParent{Definition: of.CRD, Selector: selector})
}

// Reconcile returns the desired state of one parent.
func Reconcile(of bindings.Request) types.Result[bindings.Response, bindings.Failure] {
	response, failure := guest.Plugin.Reconcile(request(of))
	if failure != nil {
		return types.Err[bindings.Response](failureOf(failure))
	}
	raw := bindings.Response{
		Children:  each(response.Children, desired),
		Keep:      keep(response),
		Status:    document(response.Status),
		Waiting:   text(response.Waiting),
		Requeue:   optional(response.Requeue),
		RequeueAt: optional(response.RequeueAt),
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
		raw.Requirements = append(raw.Requirements, bindings.Requirement{
			Id: host.UTF8(requirement.ID), Kind: kind(requirement.Kind), Namespaces: namespaces(requirement),
			Select: selection(requirement.Select), MetadataOnly: requirement.MetadataOnly,
		})
	}
	return types.Ok[bindings.Response, bindings.Failure](raw)
}

func request(of bindings.Request) contract.Request {
	request := contract.Request{
		Parent:           of.Parent,
		Children:         each(of.Children, observed),
		Kinds:            each(of.Kinds, kindOf),
		Config:           of.Config.Some(),
		ClosedNamespaces: of.Capabilities.ClosedNamespaces,
	}
	if of.Phase.Tag() == bindings.PhaseFinalize {
		why := of.Phase.Finalize()
		causes := [...]contract.FinalizeCause{contract.Deleted, contract.LeftSelector, contract.LeftNamespaces}
		request.Finalizing = &contract.Finalizing{Cause: causes[why.Cause], NamespaceTerminating: why.NamespaceTerminating}
	}
	if of.Now.Tag() == types.OptionSome {
		request.Now = new(of.Now.Some())
	}
	for _, one := range of.LeftOut {
		child := contract.ChildRef{Kind: kindOf(one.Child.Kind), Namespace: one.Child.Namespace.Some(), Name: one.Child.Name}
		request.LeftOut = append(request.LeftOut, contract.LeftOut{Child: child, Size: one.Size})
	}
	for _, related := range of.Related {
		request.Related = append(request.Related, contract.Related{ID: related.Id, Objects: each(related.Objects, observed)})
	}
	return request
}

func failureOf(failure *contract.Failure) bindings.Failure {
	message := host.UTF8(failure.Message)
	if failure.Kind == contract.Invalid {
		return bindings.MakeFailureInvalid(bindings.Invalid{Field: text(failure.Field), Message: message})
	}
	return bindings.MakeFailureFailed(message)
}

func desired(child contract.DesiredChild) bindings.DesiredChild {
	raw := bindings.DesiredChild{
		Object: child.Object, Stage: child.Stage, Retain: child.Retain, TakeOver: child.TakeOver,
		Create: bindings.MakeCreateAlways(), Ready: optional(child.Ready),
	}
	if child.Once != "" {
		raw.Create = bindings.MakeCreateOnce(host.UTF8(child.Once))
	}
	if child.Update.Strategy != contract.Unset {
		raw.Update = types.Some(update(child.Update))
	}
	if child.Replaces != (contract.ChildRef{}) {
		raw.Replaces = types.Some(ref(child.Replaces))
	}
	return raw
}

func keep(of contract.Response) bindings.Keep {
	switch {
	case of.KeepAll:
		return bindings.MakeKeepAll()
	case len(of.Keep) > 0:
		return bindings.MakeKeepThese(each(of.Keep, ref))
	}
	return bindings.MakeKeepNone()
}

func ref(of contract.ChildRef) bindings.ChildRef {
	return bindings.ChildRef{Kind: kind(of.Kind), Namespace: text(of.Namespace), Name: host.UTF8(of.Name)}
}

func namespaces(of contract.Requirement) bindings.Namespaces {
	switch {
	case of.AllNamespaces:
		return bindings.MakeNamespacesAll()
	case len(of.Namespaces) > 0:
		return bindings.MakeNamespacesNamed(each(of.Namespaces, host.UTF8))
	}
	return bindings.MakeNamespacesOfParent()
}

func selection(of contract.Selection) bindings.Selection {
	switch of.By {
	case contract.ByLabels:
		return bindings.MakeSelectionLabels(host.UTF8(of.Text))
	case contract.ByLabelSelector:
		return bindings.MakeSelectionLabelSelector(of.LabelSelector)
	}
	return bindings.MakeSelectionName(host.UTF8(of.Text))
}

func kind(kind contract.Kind) bindings.Kind {
	return bindings.Kind{ApiVersion: host.UTF8(kind.APIVersion), Name: host.UTF8(kind.Kind)}
}

func kindOf(kind bindings.Kind) contract.Kind {
	return contract.Kind{APIVersion: kind.ApiVersion, Kind: kind.Name}
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

func observed(one bindings.Observed) contract.Observed {
	object := contract.Observed{Kind: kindOf(one.Kind), Namespace: one.Namespace.Some(), Name: one.Name, Object: one.Object}
	switch one.Readiness.Tag() {
	case bindings.ReadinessReady:
		object.Readiness.State = contract.ReadinessReady
	case bindings.ReadinessProgressing:
		object.Readiness = contract.Readiness{State: contract.ReadinessProgressing, Message: one.Readiness.Progressing()}
	case bindings.ReadinessFailed:
		object.Readiness = contract.Readiness{State: contract.ReadinessFailed, Message: one.Readiness.Failed()}
	}
	return object
}

func each[A, B any](all []A, convert func(A) B) []B {
	converted := make([]B, len(all))
	for index, one := range all {
		converted[index] = convert(one)
	}
	return converted
}

func optional[T any](value *T) types.Option[T] {
	if value == nil {
		return types.None[T]()
	}
	return types.Some(*value)
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
