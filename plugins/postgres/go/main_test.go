package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/kinds"
	"windlass.dev/plugin/windlasstest"
)

func TestResponsesAreTheExpectedOnes(t *testing.T) {
	windlasstest.Golden(t, plugin, "../cases")
}

func TestCRDIsThatOfTheTypes(t *testing.T) {
	windlasstest.CRD(t, plugin, "crd.json")
}

// cluster is a PostgresCluster with 10 GiB for each instance, and with these other fields of the spec.
func cluster(fields string) map[string]any {
	parent := windlasstest.YAML(`
apiVersion: postgres.example.com/v1
kind: PostgresCluster
metadata: {name: orders, namespace: shop}
`)
	spec := windlasstest.YAML("{" + fields + "}")
	if _, isSet := spec["storage"]; !isSet {
		spec["storage"] = windlass.Map{"size": "10Gi"}
	}
	parent["spec"] = spec
	return parent
}

// call is the response for this cluster with these live children.
func call(t *testing.T, fields string, live ...any) *windlasstest.Response {
	t.Helper()
	response, err := windlasstest.Call(plugin, cluster(fields)).Children(live...).Run()
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// applied are the children of a response as they are in the cluster.
func applied(response *windlasstest.Response) []any {
	var live []any
	for _, child := range response.Children {
		child = maps.Clone(child)
		metadata := maps.Clone(child["metadata"].(map[string]any))
		metadata["namespace"] = "shop"
		child["metadata"] = metadata
		// The API server stores it as data.
		if text, isSecret := child["stringData"].(map[string]any); isSecret {
			data := windlass.Map{}
			for key, value := range text {
				data[key] = []byte(value.(string))
			}
			delete(child, "stringData")
			child["data"] = data
		}
		live = append(live, child)
	}
	return live
}

// options are the options of the child of this kind and name.
func options(t *testing.T, response *windlasstest.Response, kind windlass.Kind, name string) windlass.ChildOptions {
	t.Helper()
	for index, child := range response.Children {
		if child["kind"] == kind.Kind && child["metadata"].(map[string]any)["name"] == name {
			return response.Options[index]
		}
	}
	t.Fatalf("no %s %s", kind.Kind, name)
	return windlass.ChildOptions{}
}

func password(response *windlasstest.Response, secret, key string) any {
	return response.Child(kinds.Secret, secret)["stringData"].(map[string]any)[key]
}

// template is the Pod template of an instance.
func template(response *windlasstest.Response, name string) map[string]any {
	return response.Child(kinds.StatefulSet, name)["spec"].(map[string]any)["template"].(map[string]any)
}

func checksum(response *windlasstest.Response, name string) any {
	return template(response, name)["metadata"].(map[string]any)["annotations"].(map[string]any)[configAnnotation]
}

func TestChildrenComeInStages(t *testing.T) {
	response := call(t, "instances: 2, monitoring: {enablePodMonitor: true}")
	stages := map[uint32][]string{}
	for index, child := range response.Children {
		name := fmt.Sprintf("%s %s", child["kind"], child["metadata"].(map[string]any)["name"])
		stages[response.Options[index].Stage] = append(stages[response.Options[index].Stage], name)
	}
	expected := map[uint32]string{
		0: "Secret orders-internal, Secret orders-app, ConfigMap orders-config, ConfigMap orders-scripts, Service orders-rw, " +
			"Service orders-ro, Service orders-r, PersistentVolumeClaim orders-0, PersistentVolumeClaim orders-1, PodMonitor orders",
		1: "StatefulSet orders-0",
		2: "Job orders-initialize",
		3: "StatefulSet orders-1",
	}
	for stage, names := range expected {
		if actual := strings.Join(stages[stage], ", "); actual != names {
			t.Errorf("stage %d: %s", stage, actual)
		}
	}
	if len(stages) != len(expected) {
		t.Error(stages)
	}
}

func TestPasswordsStayOnceTheirSecretsExist(t *testing.T) {
	first := call(t, "")
	random := make([]byte, 1000)
	second, err := windlasstest.Call(plugin, cluster("")).Children(applied(first)...).Random(random).Run()
	if err != nil {
		t.Fatal(err)
	}
	for secret, key := range map[string]string{"orders-app": "password", "orders-internal": adminKey} {
		if before, after := password(first, secret, key), password(second, secret, key); before != after || before == "" {
			t.Errorf("%s: %v, and then %v", secret, before, after)
		}
	}
	other, err := windlasstest.Call(plugin, cluster("")).Random(random).Run()
	if err != nil || password(other, "orders-app", "password") == password(first, "orders-app", "password") {
		t.Error("two clusters have the same password", err)
	}
}

func TestJobRunsAgainForWhateverItWritesAndForNothingElse(t *testing.T) {
	once := func(fields string, live ...any) string {
		return options(t, call(t, fields, live...), kinds.Job, "orders-initialize").Once
	}
	first := call(t, "")
	live := applied(first)
	before := once("", live...)
	for _, same := range []string{
		"instances: 3", "imageName: 'postgres:17.5'", "postgresql: {parameters: {work_mem: 8MB}}", "storage: {size: 20Gi}",
	} {
		if once(same, live...) != before {
			t.Errorf("%s runs the Job again", same)
		}
	}
	for _, other := range []string{
		"bootstrap: {initdb: {database: shop}}", "bootstrap: {initdb: {owner: shop}}", "enableSuperuserAccess: true",
	} {
		if once(other, live...) == before {
			t.Errorf("%s does not run the Job", other)
		}
	}
	edited := applied(first)
	edited[1].(map[string]any)["data"].(windlass.Map)["password"] = []byte("of the user")
	if once("", edited...) == before {
		t.Error("another password of the owner does not run the Job")
	}
}

func TestChangedParameterRollsTheServers(t *testing.T) {
	before := call(t, "instances: 2")
	after := call(t, "instances: 2, postgresql: {parameters: {work_mem: 8MB}}")
	for _, name := range []string{"orders-0", "orders-1"} {
		if checksum(before, name) == checksum(after, name) {
			t.Errorf("StatefulSet %s has the same template", name)
		}
	}
	if checksum(call(t, "storage: {size: 20Gi}"), "orders-0") != checksum(before, "orders-0") {
		t.Error("a larger volume restarts the server")
	}
	rules := windlasstest.Describe(plugin).Children
	isRolled := func(rule windlass.ChildRule) bool {
		return rule.Kind == kinds.StatefulSet && rule.Update.Strategy == windlass.Rolling().Strategy
	}
	if !slices.ContainsFunc(rules, isRolled) {
		t.Error("the servers restart at the same time")
	}
}

func TestParametersAreQuoted(t *testing.T) {
	response := call(t, `postgresql: {parameters: {log_line_prefix: 'it''s \ %m'}}`)
	conf := response.Child(kinds.ConfigMap, "orders-config")["data"].(map[string]any)["postgresql.conf"].(string)
	if !strings.Contains(conf, `log_line_prefix = 'it''s \\ %m'`+"\n") {
		t.Error(conf)
	}
}

func TestVolumesAndTheirPasswordsStayUnlessTheSpecSaysOtherwise(t *testing.T) {
	for policy, isKept := range map[string]bool{"Retain": true, "Delete": false} {
		response := call(t, "instances: 2, storage: {size: 1Gi, reclaimPolicy: "+policy+"}")
		for _, child := range []struct {
			kind windlass.Kind
			name string
		}{
			{kinds.PersistentVolumeClaim, "orders-0"}, {kinds.PersistentVolumeClaim, "orders-1"},
			{kinds.Secret, "orders-internal"}, {kinds.Secret, "orders-app"},
		} {
			if options(t, response, child.kind, child.name).Retain != isKept {
				t.Errorf("%s: %s %s", policy, child.kind.Kind, child.name)
			}
		}
	}
}

func TestSuperuserHasOnePasswordInBothOfItsSecrets(t *testing.T) {
	response := call(t, "enableSuperuserAccess: true")
	if password(response, "orders-superuser", "password") != password(response, "orders-internal", superuserKey) {
		t.Error("they differ")
	}
	hba := func(response *windlasstest.Response) string {
		return response.Child(kinds.ConfigMap, "orders-config")["data"].(map[string]any)["pg_hba.conf"].(string)
	}
	if !strings.Contains(hba(call(t, "")), "host all postgres all reject") || strings.Contains(hba(response), "reject") {
		t.Error("the superuser may connect against the spec, or may not")
	}
}

func TestSpecThatTheSchemaRefusesIsInvalid(t *testing.T) {
	for fields, field := range map[string]string{
		"instances: 0":               "spec.instances",
		"instances: 10":              "spec.instances",
		"imageName: 'postgres: 17'":  "spec.imageName",
		"storage: {}":                "spec.storage.size",
		"storage: {size: much}":      "spec.storage.size",
		"superuserSecret: {name: A}": "spec.superuserSecret.name",
	} {
		_, err := windlasstest.Call(plugin, cluster(fields)).Run()
		if !windlass.IsInvalid(err) || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: %v", fields, err)
		}
	}
}

func TestNamesOfParametersAreThoseOfPostgreSQL(t *testing.T) {
	for name, isName := range map[string]bool{
		"work_mem": true, "pg_stat_statements.track": true, "_private.v1": true,
		"": false, "1st": false, "a.b.c": false, "a.": false, ".a": false, "Work_Mem": false, "a b": false, "a-b": false, "ä": false,
	} {
		if isParameter(name) != isName {
			t.Errorf("%q: %v", name, !isName)
		}
	}
}
