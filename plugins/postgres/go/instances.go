package main

import (
	"fmt"
	"strconv"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/kinds"
)

// port is the port of PostgreSQL.
const port = 5432

// Labels of the children and of Pods.
const (
	clusterLabel  = group + "/cluster"
	instanceLabel = group + "/instance"
	roleLabel     = group + "/role"
	// configAnnotation is on Pods: another configuration restarts the server.
	configAnnotation = group + "/config"
)

// Where volumes are in containers. The image must not choose where the data is: that differs between its versions.
const (
	dataPath    = "/pgdata"
	configPath  = "/etc/postgres"
	scriptsPath = "/scripts"
)

// Values of the label of the role.
const (
	primaryRole = "primary"
	replicaRole = "replica"
)

// role is the role of an instance: the first one is always the primary.
func role(index int) string {
	if index == 0 {
		return primaryRole
	}
	return replicaRole
}

// instanceName is the name of an instance's StatefulSet and claim.
func instanceName(request *Request, index int) string {
	return request.Name + "-" + strconv.Itoa(index)
}

// podName is the name of an instance's only Pod.
func podName(request *Request, index int) string {
	return instanceName(request, index) + "-0"
}

func labels(request *Request) windlass.Map {
	return windlass.Map{clusterLabel: request.Name}
}

func instanceLabels(request *Request, index int) windlass.Map {
	return windlass.Map{clusterLabel: request.Name, instanceLabel: strconv.Itoa(index), roleLabel: role(index)}
}

func metadata(request *Request, name string) windlass.Map {
	return windlass.Map{"name": name, "labels": labels(request)}
}

// checkClaims refuses what the volumes that exist cannot become. The API server would refuse it too, with less to go on.
func checkClaims(request *Request) error {
	storage := request.Spec.Storage
	for index := range request.Spec.Instances {
		claim := request.Child(kinds.PersistentVolumeClaim, instanceName(request, index))
		var size windlass.Quantity
		// The data of a claim that is being deleted is lost.
		if claim.IsBeingDeleted() || !claim.Get("/spec/resources/requests/storage", &size) {
			continue
		}
		if storage.Size.Compare(size) < 0 {
			return windlass.Invalid("spec.storage.size", "%s is less than the %s that PersistentVolumeClaim %s has; storage may grow, "+
				"never shrink", storage.Size, size, claim.Name())
		}
		class := claim.Text("/spec/storageClassName")
		if storage.StorageClass != "" && class != "" && storage.StorageClass != class {
			return windlass.Invalid("spec.storage.storageClass", "PersistentVolumeClaim %s has the class %s, which cannot change",
				claim.Name(), class)
		}
	}
	return nil
}

// claim is the volume of an instance. That of an instance which is no longer desired is not returned: the host keeps a retained one.
func claim(request *Request, index int) windlass.Map {
	storage := request.Spec.Storage
	spec := windlass.Map{
		"accessModes": []string{"ReadWriteOnce"},
		"resources":   windlass.Map{"requests": windlass.Map{"storage": storage.Size}},
	}
	if storage.StorageClass != "" {
		spec["storageClassName"] = storage.StorageClass
	}
	return windlass.Map{
		"apiVersion": "v1",
		"kind":       "PersistentVolumeClaim",
		"metadata":   windlass.Map{"name": instanceName(request, index), "labels": instanceLabels(request, index)},
		"spec":       spec,
	}
}

// statefulSet runs one instance. Each instance has its own, because the claims are children, which a template of claims could not
// make larger.
func statefulSet(request *Request, index int) windlass.Map {
	selector := windlass.Map{clusterLabel: request.Name, instanceLabel: strconv.Itoa(index)}
	return windlass.Map{
		"apiVersion": "apps/v1",
		"kind":       "StatefulSet",
		"metadata":   windlass.Map{"name": instanceName(request, index), "labels": instanceLabels(request, index)},
		"spec": windlass.Map{
			"replicas":    1,
			"serviceName": rServiceName(request),
			"selector":    windlass.Map{"matchLabels": selector},
			"template": windlass.Map{
				"metadata": windlass.Map{
					"labels":      instanceLabels(request, index),
					"annotations": windlass.Map{configAnnotation: windlass.Checksum(serverConfig(request))},
				},
				"spec": podSpec(request, index),
			},
		},
	}
}

func podSpec(request *Request, index int) windlass.Map {
	spec := podDefaults(request)
	spec["affinity"] = apart(request)
	// A server writes its memory to the volume before it ends.
	spec["terminationGracePeriodSeconds"] = 120
	spec["containers"] = []windlass.Map{server(request)}
	spec["volumes"] = []windlass.Map{
		{"name": "data", "persistentVolumeClaim": windlass.Map{"claimName": instanceName(request, index)}},
		volumeOf("config", configName(request)),
		volumeOf("scripts", scriptsName(request)),
		// 64 MiB, which containers have, are too few for parallel queries.
		{"name": "shm", "emptyDir": windlass.Map{"medium": "Memory"}},
	}
	if index > 0 {
		spec["initContainers"] = []windlass.Map{join(request, index)}
	}
	if request.Spec.Monitoring.EnablePodMonitor {
		spec["containers"] = []windlass.Map{server(request), exporter(request)}
	}
	return spec
}

// podDefaults is what all Pods have, by the Pod Security Standard "restricted".
func podDefaults(request *Request) windlass.Map {
	user, group := request.Spec.PostgresUID, request.Spec.PostgresGID
	return windlass.Map{
		"automountServiceAccountToken": false,
		"enableServiceLinks":           false,
		"securityContext": windlass.Map{
			"runAsNonRoot": true, "runAsUser": user, "runAsGroup": group,
			"fsGroup": group, "fsGroupChangePolicy": "OnRootMismatch",
			"seccompProfile": windlass.Map{"type": "RuntimeDefault"},
		},
	}
}

func containerSecurity() windlass.Map {
	return windlass.Map{"allowPrivilegeEscalation": false, "capabilities": windlass.Map{"drop": []string{"ALL"}}}
}

// apart prefers another node for each instance.
func apart(request *Request) windlass.Map {
	term := windlass.Map{
		"labelSelector": windlass.Map{"matchLabels": labels(request)},
		"topologyKey":   "kubernetes.io/hostname",
	}
	preferred := []windlass.Map{{"weight": 100, "podAffinityTerm": term}}
	return windlass.Map{"podAntiAffinity": windlass.Map{"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
}

func server(request *Request) windlass.Map {
	internal := internalSecretName(request)
	return windlass.Map{
		"name":  "postgres",
		"image": request.Spec.ImageName,
		"args":  []string{"-c", "config_file=" + configPath + "/postgresql.conf", "-c", "hba_file=" + configPath + "/pg_hba.conf"},
		"env": []windlass.Map{
			env("PGDATA", dataPath+"/data"),
			env("POSTGRES_INITDB_ARGS", "--encoding=UTF8 --locale=C"),
			// The image demands one. The Job replaces it.
			secretEnv("POSTGRES_PASSWORD", internal, adminKey),
			secretEnv("ADMIN_PASSWORD", internal, adminKey),
			secretEnv("REPLICATION_PASSWORD", internal, replicationKey),
			secretEnv("METRICS_PASSWORD", internal, metricsKey),
		},
		"ports":           []windlass.Map{{"name": "postgresql", "containerPort": port}},
		"resources":       request.Spec.Resources,
		"securityContext": containerSecurity(),
		// Over TCP: while the data is initialized, a server without network runs. As a role that may connect: else the server would log
		// each question.
		"readinessProbe": windlass.Map{
			"exec":          windlass.Map{"command": []string{"pg_isready", "--host=127.0.0.1", "--username=" + admin}},
			"periodSeconds": 5, "timeoutSeconds": 5,
		},
		"volumeMounts": []windlass.Map{
			mount("data", dataPath),
			mount("config", configPath),
			{"name": "scripts", "mountPath": "/docker-entrypoint-initdb.d/roles.sql", "subPath": "roles.sql"},
			mount("shm", "/dev/shm"),
		},
	}
}

// join is the container that copies the primary's data before a replica starts.
func join(request *Request, index int) windlass.Map {
	primary := fmt.Sprintf("host=%s port=%d user=%s application_name=%s", rwServiceName(request), port, replication, podName(request, index))
	return windlass.Map{
		"name":    "join",
		"image":   request.Spec.ImageName,
		"command": []string{"sh", scriptsPath + "/join.sh"},
		"env": []windlass.Map{
			env("PGDATA", dataPath+"/data"),
			env("PRIMARY", primary),
			secretEnv("PGPASSWORD", internalSecretName(request), replicationKey),
		},
		"resources":       request.Spec.Resources,
		"securityContext": containerSecurity(),
		"volumeMounts":    []windlass.Map{mount("data", dataPath), mount("scripts", scriptsPath)},
	}
}

// exporter serves the metrics of the server beside it.
func exporter(request *Request) windlass.Map {
	return windlass.Map{
		"name":  "exporter",
		"image": request.Spec.Monitoring.ExporterImage,
		"env": []windlass.Map{
			env("DATA_SOURCE_URI", fmt.Sprintf("127.0.0.1:%d/postgres?sslmode=disable", port)),
			env("DATA_SOURCE_USER", metrics),
			secretEnv("DATA_SOURCE_PASS", internalSecretName(request), metricsKey),
		},
		"ports":           []windlass.Map{{"name": "metrics", "containerPort": 9187}},
		"securityContext": containerSecurity(),
	}
}

func env(name, value string) windlass.Map { return windlass.Map{"name": name, "value": value} }

func secretEnv(name, secret, key string) windlass.Map {
	reference := windlass.Map{"name": secret, "key": key}
	return windlass.Map{"name": name, "valueFrom": windlass.Map{"secretKeyRef": reference}}
}

func mount(volume, path string) windlass.Map {
	return windlass.Map{"name": volume, "mountPath": path}
}

func volumeOf(name, configMap string) windlass.Map {
	return windlass.Map{"name": name, "configMap": windlass.Map{"name": configMap}}
}
