package windlasstest

import (
	"encoding/json"
	"fmt"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/contract"
	"windlass.dev/plugin/internal/host"
)

// Refused is the error of a call whose response, config or descriptor the host refuses. It is no failure of the plugin.
type Refused struct {
	// Message is the host's sentence.
	Message string
}

// Error returns the host's sentence.
func (r *Refused) Error() string { return r.Message }

// answer is what the host makes of a call.
type answer struct {
	Refused  string
	Invalid  string
	Parent   json.RawMessage
	Children []told
	Related  map[string][]told
}

// told is the readiness of an object.
type told struct {
	State, Message string
}

// ask asks the host's own code about the call: before it, without a response, or after it.
func (p *Prepared) ask(response map[string]any) (answer, error) {
	related := map[string][]json.RawMessage{}
	for _, one := range p.request.Related {
		objects := append([]json.RawMessage{}, related[one.ID]...) // Not nil, which would be null.
		related[one.ID] = append(objects, documents(one.Objects)...)
	}
	phase := "sync"
	if p.request.Finalizing != nil {
		phase = "finalize"
	}
	question := map[string]any{
		"descriptor": descriptorOf(p.plugin.Describe()),
		"phase":      phase,
		"parent":     json.RawMessage(p.request.Parent),
		"children":   documents(p.request.Children),
		"related":    related,
	}
	if p.request.Config != nil {
		question["config"] = json.RawMessage(p.request.Config)
	}
	if response != nil {
		question["response"] = response
	}
	output, err := host.Harness(encode(question))
	if err != nil {
		return answer{}, err
	}
	var read answer
	if err := json.Unmarshal(output, &read); err != nil {
		return answer{}, fmt.Errorf("windlass harness: %w", err)
	}
	if read.Refused != "" {
		return answer{}, &Refused{read.Refused}
	}
	return read, nil
}

// prepare does what the host does before a call: it checks the parent, fills in its defaults, and sets the readiness of the objects of
// the request that the test has not set.
func (p *Prepared) prepare() error {
	read, err := p.ask(nil)
	if err != nil {
		return err
	}
	p.invalid = read.Invalid
	if read.Parent != nil {
		p.request.Parent = read.Parent
	}
	set(p.request.Children, read.Children)
	for _, one := range p.request.Related {
		read.Related[one.ID] = set(one.Objects, read.Related[one.ID])
	}
	return nil
}

// set sets the readiness of objects, and returns what is told of others.
func set(objects []contract.Observed, all []told) []told {
	states := map[string]contract.ReadinessState{
		"ready": contract.ReadinessReady, "progressing": contract.ReadinessProgressing, "failed": contract.ReadinessFailed,
	}
	for index, one := range all[:len(objects)] {
		if readiness := &objects[index].Readiness; readiness.State == contract.ReadinessUnknown {
			*readiness = windlass.Readiness{State: states[one.State], Message: one.Message}
		}
	}
	return all[len(objects):]
}

func documents(objects []contract.Observed) []json.RawMessage {
	all := make([]json.RawMessage, 0, len(objects))
	for _, object := range objects {
		all = append(all, object.Object)
	}
	return all
}

func descriptorOf(plugin contract.Descriptor) map[string]any {
	fields := map[string]any{
		"name": plugin.Name, "version": plugin.Version, "description": plugin.Description,
		"finalizes": plugin.Finalizes, "orderedDeletion": plugin.OrderedDeletion, "clock": plugin.Clock, "resyncMs": plugin.Resync,
		"readyMeans": [...]string{
			contract.ReadyMeansChildren: "children", contract.ReadyMeansApplied: "applied", contract.ReadyMeansPlugin: "plugin",
		}[plugin.ReadyMeans],
		"children": list(plugin.Children, func(rule contract.ChildRule) any {
			of := kindFields(rule.Kind)
			of["optional"] = rule.Optional
			if rule.Update.Strategy != contract.Unset {
				of["update"] = updateOf(rule.Update)
			}
			return of
		}),
		"related": list(plugin.Related, func(rule contract.RelatedRule) any {
			of := kindFields(rule.Kind)
			of["optional"] = rule.Optional
			return of
		}),
		"metrics": list(plugin.Metrics, func(metric contract.Metric) any {
			kinds := [...]string{contract.Counter: "counter", contract.Gauge: "gauge", contract.Histogram: "histogram"}
			return map[string]any{
				"name": metric.Name, "unit": metric.Unit, "description": metric.Description, "type": kinds[metric.Type],
				"labels": append([]string{}, metric.Labels...),
			}
		}),
	}
	selector := map[string]any{}
	if plugin.Parent.Selector.Labels != "" {
		selector["labels"] = plugin.Parent.Selector.Labels
	}
	if plugin.Parent.Selector.Annotations != "" {
		selector["annotations"] = plugin.Parent.Selector.Annotations
	}
	fields["selector"] = selector
	if plugin.Parent.Existing != nil {
		fields["parent"] = map[string]any{"existing": kindFields(*plugin.Parent.Existing)}
	} else {
		fields["parent"] = map[string]any{"custom": json.RawMessage(plugin.Parent.CRD)}
	}
	if plugin.ConfigSchema != nil {
		fields["configSchema"] = json.RawMessage(plugin.ConfigSchema)
	}
	return fields
}
