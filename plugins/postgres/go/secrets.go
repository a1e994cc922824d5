package main

import (
	"fmt"
	"net/url"

	windlass "windlass.dev/plugin"
	"windlass.dev/plugin/kinds"
)

// Keys of the Secret with the passwords of the roles that each cluster has.
const (
	adminKey       = "admin"
	replicationKey = "replication"
	metricsKey     = "metrics"
	superuserKey   = "superuser"
)

// superuserID is the id of the requirement of the user's Secret for the superuser.
const superuserID = "superuser"

func appSecretName(request *Request) string      { return request.Name + "-app" }
func internalSecretName(request *Request) string { return request.Name + "-internal" }

// superuserSecretName is the Secret with the superuser's password: the user's, or the generated one.
func superuserSecretName(request *Request) string {
	if named := request.Spec.SuperuserSecret; named != nil {
		return named.Name
	}
	return request.Name + "-superuser"
}

// internalPasswords are the generated passwords of the roles that each cluster has. The servers read them at their first start only, so
// the same must be there as long as their data.
func internalPasswords(request *Request) (map[string]string, error) {
	name := internalSecretName(request)
	if request.Child(kinds.Secret, name) == nil {
		for _, claim := range request.Children(kinds.PersistentVolumeClaim) {
			if !claim.IsBeingDeleted() {
				return nil, windlass.Failed(
					"there is PersistentVolumeClaim %s, but no Secret %s with the passwords of its server: restore the Secret with "+
						"its labels, or delete the claims of this cluster", claim.Name(), name)
			}
		}
	}
	passwords := map[string]string{}
	for _, key := range []string{adminKey, replicationKey, metricsKey, superuserKey} {
		passwords[key] = request.Generated(name, key, nil)
	}
	return passwords, nil
}

// appSecret is what an application needs to connect to the database as its owner.
func appSecret(request *Request) windlass.Map {
	initdb, name := request.Spec.Bootstrap.InitDB, appSecretName(request)
	owner, password := initdb.OwnerName(), request.Generated(name, "password", nil)
	host := rwServiceName(request) + "." + request.Namespace
	uri := url.URL{
		Scheme: "postgresql",
		User:   url.UserPassword(owner, password),
		Host:   fmt.Sprintf("%s:%d", host, port),
		Path:   "/" + initdb.Database,
	}
	return secret(request, name, "kubernetes.io/basic-auth", map[string]string{
		"username": owner,
		"password": password,
		"dbname":   initdb.Database,
		"host":     host,
		"port":     fmt.Sprint(port),
		"uri":      uri.String(),
	})
}

// superuserSecret is the generated password of the superuser for users. That it stays in the other Secret as well makes it the same
// whenever users may connect again.
func superuserSecret(request *Request, password string) windlass.Map {
	return secret(request, superuserSecretName(request), "kubernetes.io/basic-auth", map[string]string{
		"username": superuser,
		"password": password,
	})
}

func secret(request *Request, name, secretType string, data map[string]string) windlass.Map {
	return windlass.Map{
		"apiVersion": "v1",
		"kind":       "Secret",
		"metadata":   metadata(request, name),
		"type":       secretType,
		"stringData": data,
	}
}
