package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	windlass "windlass.dev/plugin"
)

// Desired state of a PostgresCluster: one primary server of PostgreSQL, and streaming replicas of it.
type Spec struct {
	// Number of instances, 1 to 9. Instance 0 is the primary, and the others are read-only replicas of it. Default: 1.
	Instances int `json:"instances" default:"1" minimum:"1" maximum:"9"`
	// Image of the servers: the official image postgres, or one with its entrypoint. Default: postgres:17.
	ImageName string `json:"imageName" default:"postgres:17" is:"image" maxLength:"1024"`
	// User id of the servers' processes; 999 in the official image, 70 in its Alpine variant. Default: 999.
	PostgresUID int64 `json:"postgresUID" default:"999" minimum:"1" maximum:"2147483647"`
	// Group id of the servers' processes and volumes. Default: 999.
	PostgresGID int64 `json:"postgresGID" default:"999" minimum:"1" maximum:"2147483647"`
	// Volumes of the instances, one each.
	Storage Storage `json:"storage"`
	// How the cluster begins.
	Bootstrap Bootstrap `json:"bootstrap" default:"{}"`
	// Configuration of the servers.
	Postgresql Postgresql `json:"postgresql" default:"{}"`
	// Compute resources of each server.
	Resources Resources `json:"resources" default:"{}"`
	// Whether the superuser postgres may connect over the network, with the password of superuserSecret, or of a generated Secret
	// NAME-superuser. Default: false.
	EnableSuperuserAccess bool `json:"enableSuperuserAccess" default:"false"`
	// Secret with the password of the superuser postgres, in its key password. Ignored unless enableSuperuserAccess is true.
	SuperuserSecret *LocalObjectReference `json:"superuserSecret"`
	// Metrics for Prometheus.
	Monitoring Monitoring `json:"monitoring" default:"{}"`
}

// Volumes of the instances, one each.
type Storage struct {
	// Requested capacity of each volume, as in 10Gi. It may grow if the storage class allows it, and never shrink.
	Size windlass.Quantity `json:"size"`
	// Storage class of the volumes, which cannot change. Default: the default class of the cluster.
	StorageClass string `json:"storageClass,omitempty" is:"dns-subdomain"`
	// Whether the volumes and the passwords of their servers stay when the PostgresCluster is deleted: Retain or Delete.
	// Default: Retain.
	ReclaimPolicy string `json:"reclaimPolicy" default:"Retain" enum:"Retain,Delete"`
}

// Rules are rules that the API server evaluates. That the size does not shrink is not one of them: a size that the storage refuses
// can be taken back.
func (Storage) Rules() []windlass.Rule {
	return []windlass.Rule{windlass.Positive("size"), {
		Rule: "has(self.storageClass) == has(oldSelf.storageClass) && " +
			"(!has(self.storageClass) || self.storageClass == oldSelf.storageClass)",
		Message: "storageClass cannot change",
	}}
}

// How the cluster begins.
type Bootstrap struct {
	// A new, empty database.
	InitDB InitDB `json:"initdb" default:"{}"`
}

// A new, empty database.
type InitDB struct {
	// Name of the database. Default: app.
	Database string `json:"database" default:"app" maxLength:"63" pattern:"^[a-z_][a-z0-9_-]*$"`
	// Role that owns the database, and whose password the Secret NAME-app has. Default: the name of the database.
	Owner string `json:"owner,omitempty" maxLength:"63" pattern:"^[a-z_][a-z0-9_-]*$"`
}

// OwnerName is the name of the role that owns the database.
func (i InitDB) OwnerName() string {
	if i.Owner == "" {
		return i.Database
	}
	return i.Owner
}

// Configuration of the servers.
type Postgresql struct {
	// Parameters of postgresql.conf by their names, at most 500. A change restarts the servers, one after the other.
	Parameters map[string]string `json:"parameters" default:"{}" maxProperties:"500"`
}

// Compute resources of each server, as a container has them.
type Resources struct {
	// What the server gets at least.
	Requests map[string]windlass.Quantity `json:"requests,omitempty" maxProperties:"16"`
	// What the server gets at most.
	Limits map[string]windlass.Quantity `json:"limits,omitempty" maxProperties:"16"`
}

// Metrics for Prometheus.
type Monitoring struct {
	// Whether each instance has an exporter of metrics, and the cluster a PodMonitor for the Prometheus Operator. Default: false.
	EnablePodMonitor bool `json:"enablePodMonitor" default:"false"`
	// Image of the exporter. Default: prometheuscommunity/postgres-exporter:v0.17.1.
	ExporterImage string `json:"exporterImage" default:"prometheuscommunity/postgres-exporter:v0.17.1" is:"image" maxLength:"1024"`
}

// Object in the namespace of the PostgresCluster.
type LocalObjectReference struct {
	// Name of the object.
	Name string `json:"name" is:"dns-subdomain"`
}

// Parameters that the plugin sets, and directives that would read other files.
var fixedParameters = []string{
	"config_file", "data_directory", "external_pid_file", "hba_file", "hot_standby", "ident_file", "include", "include_dir",
	"include_if_exists", "listen_addresses", "port", "primary_conninfo", "primary_slot_name", "unix_socket_directories",
	"unix_socket_group", "unix_socket_permissions",
}

var (
	reservedDatabases = []string{"postgres", "template0", "template1"}
	reservedRoles     = []string{superuser, admin, replication, metrics}
)

// check checks what the schema of the CRD cannot say.
func (s *Spec) check() error {
	if size := s.Storage.Size; !size.IsPositive() {
		return windlass.Invalid("spec.storage.size", "%s is not more than 0", size)
	}
	initdb := s.Bootstrap.InitDB
	if slices.Contains(reservedDatabases, initdb.Database) {
		return windlass.Invalid("spec.bootstrap.initdb.database", "%q is a database of PostgreSQL itself", initdb.Database)
	}
	if owner := initdb.OwnerName(); slices.Contains(reservedRoles, owner) || strings.HasPrefix(owner, "pg_") {
		return windlass.Invalid("spec.bootstrap.initdb.owner", "%q is the name of a role that exists in each cluster", owner)
	}
	// In order, so that of several invalid ones it is always the same that is named.
	for _, name := range slices.Sorted(maps.Keys(s.Postgresql.Parameters)) {
		field := fmt.Sprintf("spec.postgresql.parameters[%q]", name)
		switch {
		case !isParameter(name):
			return windlass.Invalid(field, "is not the name of a parameter")
		case slices.Contains(fixedParameters, name):
			return windlass.Invalid(field, "is set by the plugin")
		case strings.ContainsFunc(s.Postgresql.Parameters[name], isControl):
			return windlass.Invalid(field, "must be one line of text")
		}
	}
	return nil
}

// isParameter tells whether a text is the name of a parameter, with that of an extension before it or not (`pg_stat_statements.track`).
func isParameter(name string) bool {
	extension, own, isOfExtension := strings.Cut(name, ".")
	return isIdentifier(extension) && (!isOfExtension || isIdentifier(own))
}

func isIdentifier(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz_"
	return name != "" && strings.Contains(letters, name[:1]) && strings.Trim(name, letters+"0123456789") == ""
}

func isControl(character rune) bool { return character < ' ' || character == 0x7f }
