// Probe is the probe on the Go SDK: a plugin whose spec tells what to do, so that windlass test --conformance sees how the SDK
// behaves. The probes of the other SDKs do the same.
package main

import (
	_ "embed"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/contract"
	"windlass.dev/plugin/kinds"
	"windlass.dev/plugin/log"
	"windlass.dev/plugin/span"
)

// What the probe does.
type Spec struct {
	// The number of ConfigMaps.
	Children int `json:"children" minimum:"0" maximum:"1000" default:"0"`
	// Copied into the status and the ConfigMaps.
	Text *string `json:"text"`
	// Copied into the status.
	Number *int64 `json:"number"`
	// Copied into the status.
	Decimal *float64 `json:"decimal"`
	// Copied into the status and the ConfigMaps.
	Map map[string]string `json:"map,omitempty"`
	// Copied into the status, and the spec of a child of kind Copy.
	Copy any `json:"copy,omitempty"`
	// The failure: its kind, a colon and the message.
	Fail *string `json:"fail"`
	// The name of a related ConfigMap, which may name another one in data.next.
	Require *string `json:"require" pattern:"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" maxLength:"63"`
	// The labels of related ConfigMaps.
	Select *string `json:"select" pattern:"^[a-z]+=[a-z]+$"`
	// Events on the parent.
	Events []Event `json:"events,omitempty" maxItems:"16"`
	// Conditions of the parent.
	Conditions []Condition `json:"conditions,omitempty" maxItems:"8"`
	// Seconds until the next call.
	RequeueSeconds *int64 `json:"requeueSeconds" minimum:"1" maximum:"86400"`
	// Whether to log, to trace and to measure.
	Report bool `json:"report" default:"false"`
	// Whether the status has the time.
	Time bool `json:"time" default:"false"`
	// Whether there is a ConfigMap with random bytes.
	Random bool `json:"random" default:"false"`
	// Whether the ConfigMaps outlive the parent.
	Retain bool `json:"retain" default:"false"`
	// The options of the ConfigMaps, in their order.
	Options []Options `json:"options,omitempty" maxItems:"8"`
	// The names of ConfigMaps that stay as they are.
	Keep []string `json:"keep,omitempty" maxItems:"8"`
	// Whether all children stay as they are.
	KeepAll bool `json:"keepAll" default:"false"`
	// What the probe waits for.
	Waiting *string `json:"waiting" minLength:"1"`
	// Whether the ConfigMaps by labels are in all namespaces, and their metadata is enough.
	Everywhere bool `json:"everywhere" default:"false"`
	// The time of the next call.
	RequeueAt *time.Time `json:"requeueAt"`
	// Whether the status has what the probe sees.
	See bool `json:"see" default:"false"`
	// A schedule whose times the status has.
	Schedule *Schedule `json:"schedule"`
}

// How the host treats a ConfigMap.
type Options struct {
	// As in the contract.
	Stage uint32 `json:"stage" default:"0"`
	// As in the contract.
	TakeOver bool `json:"takeOver" default:"false"`
	// As in the contract.
	Ready *bool `json:"ready"`
	// As in the contract.
	Retain bool `json:"retain" default:"false"`
	// As in the contract.
	Once *string `json:"once" minLength:"1"`
	// As in the contract.
	Update *string `json:"update" enum:"apply,recreate,onDelete"`
	// The name of a ConfigMap.
	Replaces *string `json:"replaces" is:"dns-label"`
}

// An event.
type Event struct {
	// Why, in CamelCase.
	Reason string `json:"reason" pattern:"^[A-Z][A-Za-z]*$" maxLength:"63"`
	// Details.
	Message string `json:"message"`
	// Whether it is a warning.
	Warning bool `json:"warning" default:"false"`
}

// A condition.
type Condition struct {
	// What holds, in CamelCase.
	Type string `json:"type" pattern:"^[A-Z][A-Za-z]*$" maxLength:"63"`
	// Whether it holds.
	Holds bool `json:"holds"`
	// Why, in CamelCase.
	Reason string `json:"reason" pattern:"^[A-Z][A-Za-z]*$" maxLength:"63"`
	// Details.
	Message string `json:"message"`
}

// What the probe sees.
type Status struct {
	// As in the spec.
	Text *string `json:"text"`
	// As in the spec.
	Number *int64 `json:"number"`
	// As in the spec.
	Decimal *float64 `json:"decimal"`
	// As in the spec.
	Map map[string]string `json:"map,omitzero"`
	// As in the spec.
	Copy any `json:"copy,omitempty"`
	// The text of the last status.
	Before *string `json:"before"`
	// The parent's label "probe".
	Label *string `json:"label"`
	// The parent's annotation "probe".
	Annotation *string `json:"annotation"`
	// The number of ConfigMaps that exist.
	Live int `json:"live"`
	// The number of children of kind Copy whose condition Ready is True.
	Ready int `json:"ready"`
	// The names of the ConfigMaps that are being deleted.
	Leaving []string `json:"leaving,omitempty"`
	// The related objects.
	Related []any `json:"related,omitzero"`
	// The Plugin's config.
	Config *Config `json:"config"`
	// The time of the call.
	Time *string `json:"time"`
	// Whether the parent is cleaned up.
	Finalizing *bool `json:"finalizing"`
	// Why the parent is cleaned up.
	Cause windlass.FinalizeCause `json:"cause,omitempty"`
	// Whether the namespace is being deleted.
	Terminating bool `json:"terminating,omitempty"`
	// What surrounds the parent.
	Seen *Seen `json:"seen"`
	// Times of the schedule.
	Scheduled *Scheduled `json:"scheduled"`
}

// What surrounds the parent.
type Seen struct {
	// The readiness of the children.
	Readiness []string `json:"readiness"`
	// The optional kinds that exist.
	Kinds []string `json:"kinds"`
	// The namespaces in which the probe may have no children.
	Closed []string `json:"closed"`
	// The time of the request.
	Now string `json:"now"`
}

// The Plugin's config.
type Config struct {
	// Any text.
	Greeting string `json:"greeting" default:"none"`
	// Any number.
	Number *int64 `json:"number"`
}

//go:embed crd.json
var crd []byte

//go:embed config.json
var configSchema []byte

// Copies are objects of a kind that only the probe has.
var copies = windlass.Kind{APIVersion: "conformance.example/v1", Kind: "Copy"}

// Extras are objects of a kind that may be missing.
var extras = windlass.Kind{APIVersion: "conformance.example/v1", Kind: "Extra"}

var plugin = windlass.Plugin[Spec, Status]{
	Name:         "probe",
	Version:      "0.1.0",
	Description:  "Does what its spec tells, so that a test sees how the SDK behaves",
	Parent:       windlass.CustomResource{Group: "conformance.example", Version: "v1", Kind: "Probe", CRD: crd},
	Children:     []windlass.ChildRule{{Kind: kinds.ConfigMap}, {Kind: copies}, {Kind: extras, Optional: true}},
	Related:      []windlass.RelatedRule{{Kind: kinds.ConfigMap}},
	Finalizes:    true,
	ReadyMeans:   windlass.ReadyMeansApplied,
	Clock:        true,
	Resync:       5 * time.Minute,
	ConfigSchema: configSchema,
	Metrics: []windlass.Metric{
		windlass.NewCounter("reports_total", "Reports", "kind"),
		windlass.NewGauge("size", "By", "The size of the report"),
	},
	Reconcile: reconcile,
	Finalize:  finalize,
}

type request = *windlass.Request[Spec, Status]

type response = *windlass.Response[Status]

func reconcile(r request) (response, error) {
	spec := r.Spec
	if spec.Fail != nil {
		if answer, err := fail(*spec.Fail); answer != nil || err != nil {
			return answer, err
		}
	}
	if spec.Report {
		report(spec.Text)
	}
	status, err := statusOf(r)
	if err != nil {
		return nil, err
	}
	response := &windlass.Response[Status]{Status: status, KeepAll: spec.KeepAll}
	for _, name := range spec.Keep {
		response.Keep = append(response.Keep, windlass.ChildRef{Kind: kinds.ConfigMap, Name: name})
	}
	if spec.Waiting != nil {
		response.Waiting = *spec.Waiting
	}
	response.Requirements, status.Related = related(r)
	for index := range spec.Children {
		options := options(r, index)
		if problem := contradiction(spec, options); problem != "" {
			return nil, windlass.Invalid(fmt.Sprintf("spec.options[%d]", index), "%s", problem)
		}
		response.Children = append(response.Children, windlass.ChildWith(configMap(r, index), options))
	}
	if spec.Copy != nil {
		response.Children = append(response.Children, windlass.Map{
			"apiVersion": copies.APIVersion, "kind": copies.Kind,
			"metadata": windlass.Map{"name": r.Name + "-copy"}, "spec": spec.Copy,
		})
	}
	if spec.Random {
		response.Children = append(response.Children, windlass.Map{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": windlass.Map{"name": r.Name + "-random"},
			"data": windlass.Map{"bytes": hex.EncodeToString(windlass.RandomBytes(8))},
		})
	}
	for _, event := range spec.Events {
		make := windlass.Normal
		if event.Warning {
			make = windlass.Warning
		}
		response.Events = append(response.Events, make(event.Reason, "%s", event.Message))
	}
	for _, one := range spec.Conditions {
		response.Conditions = append(response.Conditions, windlass.Condition{
			Type: one.Type, Status: windlass.StatusOf(one.Holds), Reason: one.Reason, Message: one.Message,
		})
	}
	if spec.RequeueSeconds != nil {
		response.Requeue = time.Duration(*spec.RequeueSeconds) * time.Second
	}
	if spec.RequeueAt != nil {
		response.RequeueAt(*spec.RequeueAt)
	}
	return response, nil
}

// finalize keeps the first ConfigMap until it is the last one.
func finalize(r *windlass.Request[windlass.Unread[Spec], Status]) (response, error) {
	live := r.Children(kinds.ConfigMap)
	isFinalizing := true
	response := &windlass.Response[Status]{Status: &Status{
		Live: len(live), Finalizing: &isFinalizing, Cause: r.Cause(), Terminating: r.IsNamespaceTerminating(),
	}}
	if len(live) < 2 {
		response.Finalized = true
		return response, nil
	}
	response.Children = []any{windlass.Map{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": windlass.Map{"name": live[0].Name()},
		"data": windlass.Map{"kept": "true"},
	}}
	return response, nil
}

// fail fails or waits as the spec says; both are nil if the spec says something else.
func fail(how string) (response, error) {
	switch kind, message, _ := strings.Cut(how, ": "); kind {
	case "invalid":
		return nil, windlass.Invalid("spec.fail", "%s", message)
	case "retry":
		return windlass.Wait[Status](1500*time.Millisecond, "%s", message), nil
	case "failed":
		return nil, windlass.Failed("%s", message)
	}
	return nil, nil
}

func report(given *string) {
	text := ""
	if given != nil {
		text = *given
	}
	log.Info("reported", "text", text, "number", 1)
	log.Warn("warned")
	span.Attribute("probe.text", text)
	span.Event("reported", "text", text)
	windlass.Measure("reports_total", 1, "kind", "probe")
	windlass.Measure("size", 1.5)
}

func configMap(r request, index int) windlass.Map {
	data := windlass.Map{"index": strconv.Itoa(index), "text": r.Spec.Text}
	for name, value := range r.Spec.Map {
		data[name] = value
	}
	return windlass.Map{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": windlass.Map{"name": fmt.Sprintf("%s-%d", r.Name, index)}, "data": data,
	}
}

// contradiction is why the host would refuse a ConfigMap with these options; empty if it would not.
func contradiction(spec Spec, options windlass.ChildOptions) string {
	replaced := options.Replaces.Name
	switch {
	case options.Retain && options.Once != "":
		return "retain and once exclude each other"
	case replaced != "" && (spec.KeepAll || slices.Contains(spec.Keep, replaced)):
		return "replaces a ConfigMap that is kept"
	}
	return ""
}

func options(r request, index int) windlass.ChildOptions {
	if index >= len(r.Spec.Options) {
		return windlass.ChildOptions{Retain: r.Spec.Retain}
	}
	of := r.Spec.Options[index]
	options := windlass.ChildOptions{Stage: of.Stage, TakeOver: of.TakeOver, Ready: of.Ready, Retain: of.Retain || r.Spec.Retain}
	if of.Once != nil {
		options.Once = *of.Once
	}
	if of.Update != nil {
		options.Update = map[string]windlass.UpdateStrategy{
			"apply": windlass.Apply, "recreate": windlass.Recreate, "onDelete": windlass.OnDelete,
		}[*of.Update]
	}
	if of.Replaces != nil {
		options.Replaces = windlass.ChildRef{Kind: kinds.ConfigMap, Name: *of.Replaces}
	}
	return options
}

// related returns the requirements, and the objects that the host has served for them.
func related(r request) (requirements []windlass.Requirement, objects []any) {
	serve := func(requirement windlass.Requirement, id string) *windlass.Object {
		requirements = append(requirements, requirement)
		served, isServed := r.Related(id)
		if isServed && objects == nil {
			objects = []any{}
		}
		for _, object := range served {
			objects = append(objects, object.Map())
		}
		if len(served) == 0 {
			return nil
		}
		return served[0]
	}
	if name := r.Spec.Require; name != nil {
		named := serve(windlass.Named("named", kinds.ConfigMap, *name), "named")
		if next := named.Text("/data/next"); next != "" {
			serve(windlass.Named("next", kinds.ConfigMap, next), "next")
		}
	}
	if labels := r.Spec.Select; labels != nil {
		labelled := windlass.Labelled("labelled", kinds.ConfigMap, *labels)
		if r.Spec.Everywhere {
			labelled = labelled.InAllNamespaces().MetadataOnly()
		}
		serve(labelled, "labelled")
	}
	return requirements, objects
}

func statusOf(r request) (*Status, error) {
	spec := r.Spec
	status := &Status{
		Text: spec.Text, Number: spec.Number, Decimal: spec.Decimal, Map: maps.Clone(spec.Map), Copy: spec.Copy,
		Label: entry(r.Labels, "probe"), Annotation: entry(r.Annotations, "probe"), Config: &Config{},
	}
	if before := r.Status(); before != nil {
		status.Before = before.Text
	}
	for _, child := range r.Children(kinds.ConfigMap) {
		status.Live++
		if child.IsBeingDeleted() {
			status.Leaving = append(status.Leaving, child.Name())
		}
	}
	for _, child := range r.Children(copies) {
		if child.IsConditionTrue("Ready") {
			status.Ready++
		}
	}
	if spec.Time {
		now := windlass.Timestamp(windlass.Now())
		status.Time = &now
	}
	if spec.See {
		status.Seen = see(r)
	}
	if spec.Schedule != nil {
		var err error
		if status.Scheduled, err = scheduled(spec.Schedule); err != nil {
			return nil, err
		}
	}
	return status, r.Config(status.Config)
}

func see(r request) *Seen {
	seen := &Seen{Readiness: []string{}, Kinds: []string{}, Closed: append([]string{}, r.ClosedNamespaces()...)}
	states := map[contract.ReadinessState]string{
		windlass.ReadinessUnknown: "unknown", windlass.ReadinessReady: "ready", windlass.ReadinessProgressing: "progressing",
		windlass.ReadinessFailed: "failed",
	}
	for _, child := range r.Raw().Children {
		text := fmt.Sprintf("%s %s: %s", child.Kind.Kind, child.Name, states[child.Readiness.State])
		if message := child.Readiness.Message; message != "" {
			text += ", " + message
		}
		seen.Readiness = append(seen.Readiness, text)
	}
	if r.HasKind(extras) {
		seen.Kinds = append(seen.Kinds, extras.Kind)
	}
	seen.Now = windlass.Timestamp(r.Now())
	return seen
}

func entry(of map[string]string, key string) *string {
	if value, isPresent := of[key]; isPresent {
		return &value
	}
	return nil
}

func init() { windlass.Register(plugin) }

func main() {}
