// PostgresCluster is a database cluster: a primary server of PostgreSQL with its volume, and streaming replicas.
package main

import (
	_ "embed"
	"time"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/kinds"
)

// group is the API group, and the prefix of labels.
const group = "postgres.example.com"

// podMonitorKind exists on clusters with the Prometheus Operator.
var podMonitorKind = windlass.Kind{APIVersion: "monitoring.coreos.com/v1", Kind: "PodMonitor"}

//go:embed crd.json
var crd []byte

var plugin = windlass.Plugin[Spec, Status]{
	Name:        "postgres",
	Version:     "0.1.0",
	Description: "Runs PostgreSQL: a primary with a volume that survives the cluster, and streaming replicas",
	Parent: windlass.CustomResource{
		Group:      group,
		Version:    "v1",
		Kind:       "PostgresCluster",
		ShortNames: []string{"pg"},
		Columns: []windlass.Column{
			{Name: "Phase", Type: "string", Path: ".status.phase"},
			{Name: "Instances", Type: "integer", Path: ".spec.instances"},
			{Name: "ReadyInstances", Type: "integer", Path: ".status.readyInstances"},
			{Name: "Primary", Type: "string", Path: ".status.currentPrimary"},
		},
		// The longest name that follows is that of a revision of a StatefulSet, in a label: `-8-` and ten characters.
		Rules: []windlass.Rule{windlass.RFC1035Name(50)},
		CRD:   crd,
	},
	Children: []windlass.ChildRule{
		{Kind: kinds.ConfigMap},
		{Kind: kinds.PersistentVolumeClaim},
		{Kind: kinds.Secret},
		{Kind: kinds.Service},
		// One server at a time, so that the other replicas stay.
		{Kind: kinds.StatefulSet, Update: windlass.Rolling()},
		// A Job that has run does not change with the image.
		{Kind: kinds.Job, Update: windlass.OnDelete},
		{Kind: podMonitorKind, Optional: true},
	},
	Related:         []windlass.RelatedRule{{Kind: kinds.Secret}},
	OrderedDeletion: true,
	ReadyMeans:      windlass.ReadyMeansChildren,
	Resync:          5 * time.Minute,
	Reconcile:       reconcile,
}

type (
	Request  = windlass.Request[Spec, Status]
	Response = windlass.Response[Status]
)

func reconcile(request *Request) (*Response, error) {
	if err := request.Spec.check(); err != nil {
		return nil, err
	}
	if err := checkClaims(request); err != nil {
		return nil, err
	}
	passwords, err := internalPasswords(request)
	if err != nil {
		return nil, err
	}
	password, waits := superuserPassword(request, passwords[superuserKey])
	if waits != nil {
		return waits, nil
	}
	status := statusOf(request)
	return &Response{
		Children:     children(request, passwords, password),
		Status:       &status,
		Conditions:   monitoring(request),
		Events:       events(request, status),
		Requirements: requirements(request),
	}, nil
}

// events is an event if the cluster has become healthy, or has failed.
func events(request *Request, status Status) []windlass.Event {
	before := request.Status()
	switch {
	case before == nil || before.Phase == "" || before.Phase == status.Phase:
		return nil
	case status.Phase == Failed:
		return []windlass.Event{windlass.Warning(string(Failed), "%s", status.PhaseReason)}
	case status.Phase == Healthy:
		return []windlass.Event{windlass.Normal(string(Healthy), "%d of %d instances are ready", status.ReadyInstances, status.Instances)}
	}
	return nil
}

// requirements is the user's Secret for the superuser, if the spec names one.
func requirements(request *Request) []windlass.Requirement {
	if !request.Spec.EnableSuperuserAccess || request.Spec.SuperuserSecret == nil {
		return nil
	}
	return []windlass.Requirement{windlass.Named(superuserID, kinds.Secret, request.Spec.SuperuserSecret.Name)}
}

// superuserPassword is the superuser's password: the generated one, or that of the user's Secret; empty if the superuser may not connect.
// While the user's Secret lacks it, everything stays as it is, and the response says so.
func superuserPassword(request *Request, generated string) (string, *Response) {
	if !request.Spec.EnableSuperuserAccess {
		return "", nil
	}
	required := requirements(request)
	if required == nil {
		return generated, nil
	}
	secrets, isServed := request.Related(superuserID)
	if !isServed {
		return "", &Response{KeepAll: true, Requirements: required}
	}
	var password []byte
	if len(secrets) == 0 || !secrets[0].Get("/data/password", &password) {
		name := superuserSecretName(request)
		waits := windlass.Wait[Status](time.Minute, "waits for Secret %s of spec.superuserSecret, with a key password", name)
		waits.Requirements = required
		return "", waits
	}
	return string(password), nil
}

func init() { windlass.Register(plugin) }

func main() {}
