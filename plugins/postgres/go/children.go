package main

import (
	"fmt"

	windlass "windlass.dev/plugin"
)

// The stages. Each waits until all children of the one before are ready, and is deleted before it.
const (
	// prepareStage: Secrets, ConfigMaps, Services, claims and the PodMonitor.
	prepareStage = iota
	primaryStage
	// initializeStage: the Job that creates the database.
	initializeStage
	replicaStage
)

func rwServiceName(request *Request) string { return request.Name + "-rw" }
func roServiceName(request *Request) string { return request.Name + "-ro" }
func rServiceName(request *Request) string  { return request.Name + "-r" }
func jobName(request *Request) string       { return request.Name + "-initialize" }

// children are all desired children. password is that of the superuser, if it may connect.
func children(request *Request, passwords map[string]string, password string) []any {
	internal := secret(request, internalSecretName(request), "Opaque", passwords)
	app := appSecret(request)
	isKept := request.Spec.Storage.ReclaimPolicy == "Retain"
	kept := windlass.ChildOptions{Stage: prepareStage, Retain: isKept}
	all := []any{windlass.ChildWith(internal, kept), windlass.ChildWith(app, kept)}
	if request.Spec.EnableSuperuserAccess && request.Spec.SuperuserSecret == nil {
		all = append(all, superuserSecret(request, password))
	}
	for _, config := range configMaps(request) {
		all = append(all, config)
	}
	for _, service := range services(request) {
		all = append(all, service)
	}
	for index := range request.Spec.Instances {
		all = append(all, windlass.ChildWith(claim(request, index), kept))
	}
	if request.Spec.Monitoring.EnablePodMonitor {
		// Its kind has no condition that would say so.
		all = append(all, windlass.ChildWith(podMonitor(request), windlass.ChildOptions{Ready: new(true)}))
	}
	all = append(all, windlass.ChildWith(statefulSet(request, 0), windlass.ChildOptions{Stage: primaryStage}))
	// Whatever the Job writes into the database: it runs again for each new value.
	once := windlass.Checksum(request.Spec.Bootstrap, app["stringData"], request.Spec.EnableSuperuserAccess, password)
	all = append(all, windlass.ChildWith(job(request), windlass.ChildOptions{Stage: initializeStage, Once: once}))
	for index := 1; index < request.Spec.Instances; index++ {
		all = append(all, windlass.ChildWith(statefulSet(request, index), windlass.ChildOptions{Stage: replicaStage}))
	}
	return all
}

// services are the ways to the primary, to the replicas, and to any instance.
func services(request *Request) []windlass.Map {
	return []windlass.Map{
		service(request, rwServiceName(request), windlass.Map{clusterLabel: request.Name, roleLabel: primaryRole}),
		service(request, roServiceName(request), windlass.Map{clusterLabel: request.Name, roleLabel: replicaRole}),
		service(request, rServiceName(request), labels(request)),
	}
}

func service(request *Request, name string, selector windlass.Map) windlass.Map {
	return windlass.Map{
		"apiVersion": "v1",
		"kind":       "Service",
		"metadata":   metadata(request, name),
		"spec": windlass.Map{
			"type":     "ClusterIP",
			"selector": selector,
			"ports":    []windlass.Map{{"name": "postgresql", "port": port, "targetPort": "postgresql"}},
		},
	}
}

// job creates the database and its owner.
func job(request *Request) windlass.Map {
	spec := podDefaults(request)
	initdb := request.Spec.Bootstrap.InitDB
	environment := []windlass.Map{
		env("PGHOST", rwServiceName(request)),
		env("PGUSER", admin),
		secretEnv("PGPASSWORD", internalSecretName(request), adminKey),
		env("DATABASE", initdb.Database),
		env("OWNER", initdb.OwnerName()),
		secretEnv("OWNER_PASSWORD", appSecretName(request), "password"),
		env("SUPERUSER_ACCESS", fmt.Sprint(request.Spec.EnableSuperuserAccess)),
	}
	if request.Spec.EnableSuperuserAccess {
		environment = append(environment, secretEnv("SUPERUSER_PASSWORD", superuserSecretName(request), "password"))
	}
	spec["restartPolicy"] = "Never"
	spec["containers"] = []windlass.Map{{
		"name":  "psql",
		"image": request.Spec.ImageName,
		"command": []string{
			"psql", "--no-psqlrc", "--dbname=postgres", "--set=ON_ERROR_STOP=1", "--file=" + scriptsPath + "/initialize.sql",
		},
		"env":             environment,
		"securityContext": containerSecurity(),
		"volumeMounts":    []windlass.Map{mount("scripts", scriptsPath)},
	}}
	spec["volumes"] = []windlass.Map{volumeOf("scripts", scriptsName(request))}
	return windlass.Map{
		"apiVersion": "batch/v1",
		"kind":       "Job",
		"metadata":   metadata(request, jobName(request)),
		"spec": windlass.Map{
			"backoffLimit": 6,
			// The host has this time to see that the Job has succeeded.
			"ttlSecondsAfterFinished": 3600,
			"template":                windlass.Map{"spec": spec},
		},
	}
}

// podMonitor tells the Prometheus Operator where the metrics are.
func podMonitor(request *Request) windlass.Map {
	return windlass.Map{
		"apiVersion": podMonitorKind.APIVersion,
		"kind":       podMonitorKind.Kind,
		"metadata":   metadata(request, request.Name),
		"spec": windlass.Map{
			"selector":            windlass.Map{"matchLabels": labels(request)},
			"podMetricsEndpoints": []windlass.Map{{"port": "metrics"}},
		},
	}
}
