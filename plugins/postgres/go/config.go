package main

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	windlass "windlass.dev/plugin"
)

// Roles that each cluster has.
const (
	superuser = "postgres"
	// admin initializes the cluster: a superuser with a password of its own, so that postgres needs none.
	admin       = "windlass"
	replication = "streaming_replica"
	metrics     = "windlass_metrics"
)

var (
	//go:embed scripts/roles.sql
	rolesSQL string
	//go:embed scripts/initialize.sql
	initializeSQL string
	//go:embed scripts/join.sh
	joinSH string
)

func configName(request *Request) string  { return request.Name + "-config" }
func scriptsName(request *Request) string { return request.Name + "-scripts" }

// serverConfig is what a server reads when it starts.
func serverConfig(request *Request) map[string]string {
	return map[string]string{
		"postgresql.conf": postgresqlConf(request.Spec.Postgresql.Parameters),
		"pg_hba.conf":     hbaConf(request.Spec.EnableSuperuserAccess),
	}
}

func configMap(request *Request, name string, data map[string]string) windlass.Map {
	return windlass.Map{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   metadata(request, name),
		"data":       data,
	}
}

func configMaps(request *Request) []windlass.Map {
	scripts := map[string]string{"roles.sql": rolesSQL, "initialize.sql": initializeSQL, "join.sh": joinSH}
	return []windlass.Map{
		configMap(request, configName(request), serverConfig(request)),
		configMap(request, scriptsName(request), scripts),
	}
}

// postgresqlConf is the user's parameters over the plugin's defaults.
func postgresqlConf(parameters map[string]string) string {
	all := map[string]string{
		"listen_addresses": "*",
		"hot_standby":      "on",
		// A replica that was away for less than this needs no new copy.
		"wal_keep_size": "512MB",
	}
	maps.Copy(all, parameters)
	quoted := strings.NewReplacer(`\`, `\\`, `'`, `''`)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&text, "%s = '%s'\n", name, quoted.Replace(all[name]))
	}
	return text.String()
}

// hbaConf says who may connect. The first line that matches counts.
func hbaConf(hasSuperuserAccess bool) string {
	ofSuperuser := "reject"
	if hasSuperuserAccess {
		ofSuperuser = "scram-sha-256"
	}
	lines := []string{
		// Inside of the container.
		"local all all trust",
		"host replication " + replication + " all scram-sha-256",
		"host all " + superuser + " all " + ofSuperuser,
		"host all all all scram-sha-256",
	}
	return strings.Join(lines, "\n") + "\n"
}
