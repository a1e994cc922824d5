package windlass_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/admission"
	"windlass.dev/plugin/contract"
	"windlass.dev/plugin/kinds"
	"windlass.dev/plugin/windlasstest"
)

func TestDescriptorHasEverything(t *testing.T) {
	whole := plugin(nil)
	whole.Children = []windlass.ChildRule{
		{Kind: kinds.Pod}, {Kind: kinds.Job, Update: windlass.Recreate}, {Kind: kinds.Secret, Update: windlass.OnDelete},
		{Kind: kinds.StatefulSet, Update: windlass.Rolling("Ready")}, {Kind: kinds.Service, Update: windlass.RollingRecreate()},
	}
	whole.Children = append(whole.Children, windlass.ChildRule{Kind: kinds.Ingress, Update: windlass.Apply, Optional: true})
	whole.Related = []windlass.RelatedRule{{Kind: kinds.ConfigMap}, {Kind: kinds.LimitRange, Optional: true}}
	whole.Parent = windlass.CustomResource{CRD: []byte("{}"), Selector: windlass.Selector{Labels: "a=b", Annotations: "c"}}
	whole.Finalizes, whole.OrderedDeletion, whole.Clock, whole.ReadyMeans = true, true, true, windlass.ReadyMeansApplied
	whole.Resync = time.Minute
	whole.Metrics = []windlass.Metric{windlass.NewGauge("pods", "", "Pods", "zone"), windlass.NewHistogram("time", "s", "Time"), windlass.NewCounter("calls", "Calls")}
	described := windlasstest.Describe(whole)
	kind := func(apiVersion, kind string) windlass.Kind { return windlass.Kind{APIVersion: apiVersion, Kind: kind} }
	minute := uint64(60_000)
	expected := contract.Descriptor{
		Name: "test", Version: "1.2.3", Description: "Tests",
		Children: []contract.ChildRule{
			{Kind: kind("v1", "Pod")},
			{Kind: kind("batch/v1", "Job"), Update: contract.UpdateStrategy{Strategy: contract.Recreate}},
			{Kind: kind("v1", "Secret"), Update: contract.UpdateStrategy{Strategy: contract.OnDelete}},
			{Kind: kind("apps/v1", "StatefulSet"), Update: contract.UpdateStrategy{Strategy: contract.Rolling, Conditions: []string{"Ready"}}},
			{Kind: kind("v1", "Service"), Update: contract.UpdateStrategy{Strategy: contract.Rolling, RollingRecreate: true}},
			{Kind: kind("networking.k8s.io/v1", "Ingress"), Update: contract.UpdateStrategy{Strategy: contract.Apply}, Optional: true},
		},
		Parent:    contract.Parent{CRD: []byte("{}"), Selector: contract.Selector{Labels: "a=b", Annotations: "c"}},
		Related:   []contract.RelatedRule{{Kind: kind("v1", "ConfigMap")}, {Kind: kind("v1", "LimitRange"), Optional: true}},
		Finalizes: true, OrderedDeletion: true, Clock: true, ReadyMeans: contract.ReadyMeansApplied, Resync: &minute,
		ConfigSchema: whole.ConfigSchema,
		Metrics: []contract.Metric{
			{Name: "pods", Description: "Pods", Type: contract.Gauge, Labels: []string{"zone"}},
			{Name: "time", Unit: "s", Description: "Time", Type: contract.Histogram},
			{Name: "calls", Description: "Calls", Type: contract.Counter},
		},
	}
	if !reflect.DeepEqual(described, expected) {
		t.Errorf("%+v", described)
	}
}

func TestFinalizingParentIsToldApart(t *testing.T) {
	var seen *request
	see := func() *windlasstest.Prepared {
		return call(func(r *request) (*response, error) {
			seen = r
			return &response{}, nil
		}, parent)
	}
	for _, one := range []struct {
		prepared      *windlasstest.Prepared
		cause         windlass.FinalizeCause
		isTerminating bool
	}{
		{see(), "", false},
		{see().Finalize(), windlass.Deleted, false},
		{see().FinalizeBecause(windlass.LeftNamespaces), windlass.LeftNamespaces, false},
		{see().NamespaceTerminating(), windlass.Deleted, true},
	} {
		if _, err := one.prepared.Run(); err != nil {
			t.Fatal(err)
		}
		if seen.Cause() != one.cause || seen.IsFinalizing() != (one.cause != "") || seen.IsNamespaceTerminating() != one.isTerminating {
			t.Errorf("%v: %q", one, seen.Cause())
		}
	}
}

func TestOptionalKindsExistUnlessTheTestSaysOtherwise(t *testing.T) {
	var has [3]bool
	optional := plugin(func(r *request) (*response, error) {
		has = [3]bool{r.HasKind(kinds.Ingress), r.HasKind(kinds.LimitRange), r.HasKind(kinds.ConfigMap)}
		return &response{}, nil
	})
	optional.Children = append(optional.Children, windlass.ChildRule{Kind: kinds.Ingress, Optional: true})
	optional.Related = append(optional.Related, windlass.RelatedRule{Kind: kinds.LimitRange, Optional: true})
	prepared := windlasstest.Call(optional, windlasstest.YAML(parent))
	if _, err := prepared.Run(); err != nil || has != [3]bool{true, true, false} {
		t.Error(err, has)
	}
	if _, err := prepared.Kinds(kinds.LimitRange).Run(); err != nil || has != [3]bool{false, true, false} {
		t.Error(err, has)
	}
}

func TestTimeOfARequestNeedsAClock(t *testing.T) {
	timed := plugin(func(r *request) (*response, error) {
		answer := &response{}
		answer.RequeueAt(r.Now().Add(time.Hour))
		return answer, nil
	})
	_, err := windlasstest.Call(timed, windlasstest.YAML(parent)).Run()
	if err == nil || !strings.HasPrefix(err.Error(), "panic: the request has no time: set Clock of the plugin") {
		t.Error(err)
	}
	timed.Clock = true
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	answer, err := windlasstest.Call(timed, windlasstest.YAML(parent)).At(at).Run()
	if err != nil || answer.RequeueAt != at.Add(time.Hour) {
		t.Error(err, answer)
	}
}

func TestRequestHasReadinessChildrenThatAreLeftOutAndClosedNamespaces(t *testing.T) {
	object := func(name string) map[string]any {
		return windlasstest.YAML(`{apiVersion: example.com/v1, kind: Own, metadata: {namespace: shop, name: ` + name + `}}`)
	}
	large := windlass.LeftOut{Child: windlass.ChildRef{Kind: kinds.ConfigMap, Namespace: "shop", Name: "large"}, Size: 1 << 20}
	_, err := call(func(r *request) (*response, error) {
		for name, readiness := range map[string]windlass.Readiness{
			"a":    {State: windlass.ReadinessReady},
			"b":    {State: windlass.ReadinessProgressing, Message: "1 of 2"},
			"c":    {State: windlass.ReadinessFailed, Message: "quota"},
			"d":    {},
			"none": {},
		} {
			own := r.Child(windlass.Kind{APIVersion: "example.com/v1", Kind: "Own"}, name)
			if own.Readiness() != readiness || own.IsReady() != (name == "a") {
				t.Errorf("%s: %+v", name, own.Readiness())
			}
		}
		if !reflect.DeepEqual(r.LeftOut(), []windlass.LeftOut{large}) || !reflect.DeepEqual(r.ClosedNamespaces(), []string{"kube-system"}) {
			t.Error(r.LeftOut(), r.ClosedNamespaces())
		}
		return &response{}, nil
	}, parent).
		Children(windlasstest.Ready(object("a")), windlasstest.Progressing(object("b"), "1 of 2"), windlasstest.Failed(object("c"), "quota"), object("d")).
		LeftOut(large).ClosedNamespaces("kube-system").Run()
	if err != nil {
		t.Error(err)
	}
}

func TestPluginThatWaitsKeepsEverything(t *testing.T) {
	answer, err := call(func(*request) (*response, error) {
		return windlass.Wait[status](3*time.Second, "waits for %s", "b"), nil
	}, parent).Run()
	if err != nil || !answer.KeepAll || answer.Waiting != "waits for b" || answer.Requeue != 3*time.Second || len(answer.Children) > 0 {
		t.Error(err, answer)
	}
}

func TestReviewSeesTheObjectAndWarnsWhateverItDecides(t *testing.T) {
	review := func(r *admission.Request[spec]) admission.Response {
		if r.Kind.Kind != "Test" || r.Namespace != "shop" || r.Name != "web" || r.DryRun {
			t.Errorf("%+v", r)
		}
		_, err := r.Spec()
		if err == nil {
			return admission.Allow().WithWarnings("is old")
		}
		return admission.Deny(err).WithWarnings("is old")
	}
	for text, expected := range map[string]windlasstest.Verdict{
		parent: {Warnings: []string{"is old"}},
		strings.Replace(parent, "replicas: 2", "replicas: two", 1): {
			Denied: true, Message: `spec.replicas: "two" is not a whole number of 64 bits`, Warnings: []string{"is old"},
		},
	} {
		verdict := windlasstest.Review(plugin(nil), review, admission.Create, windlasstest.YAML(text), nil)
		if !reflect.DeepEqual(verdict, expected) {
			t.Errorf("%+v", verdict)
		}
	}
}
