// Package kinds names common kinds of Kubernetes objects: request.Children(kinds.Pod). Another kind is a
// [windlass.Kind] literal.
package kinds

import windlass "windlass.dev/plugin"

// Kinds of the core API.
var (
	ConfigMap             = windlass.Kind{APIVersion: "v1", Kind: "ConfigMap"}
	LimitRange            = windlass.Kind{APIVersion: "v1", Kind: "LimitRange"}
	Namespace             = windlass.Kind{APIVersion: "v1", Kind: "Namespace"}
	PersistentVolumeClaim = windlass.Kind{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
	Pod                   = windlass.Kind{APIVersion: "v1", Kind: "Pod"}
	ResourceQuota         = windlass.Kind{APIVersion: "v1", Kind: "ResourceQuota"}
	Secret                = windlass.Kind{APIVersion: "v1", Kind: "Secret"}
	Service               = windlass.Kind{APIVersion: "v1", Kind: "Service"}
	ServiceAccount        = windlass.Kind{APIVersion: "v1", Kind: "ServiceAccount"}
)

// Kinds of workloads.
var (
	CronJob     = windlass.Kind{APIVersion: "batch/v1", Kind: "CronJob"}
	DaemonSet   = windlass.Kind{APIVersion: "apps/v1", Kind: "DaemonSet"}
	Deployment  = windlass.Kind{APIVersion: "apps/v1", Kind: "Deployment"}
	Job         = windlass.Kind{APIVersion: "batch/v1", Kind: "Job"}
	StatefulSet = windlass.Kind{APIVersion: "apps/v1", Kind: "StatefulSet"}
)

// Kinds for permissions.
var (
	ClusterRole        = windlass.Kind{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}
	ClusterRoleBinding = windlass.Kind{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"}
	Role               = windlass.Kind{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"}
	RoleBinding        = windlass.Kind{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"}
)

// Kinds for scaling, scheduling, disruptions and networks.
var (
	HorizontalPodAutoscaler = windlass.Kind{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"}
	Ingress                 = windlass.Kind{APIVersion: "networking.k8s.io/v1", Kind: "Ingress"}
	NetworkPolicy           = windlass.Kind{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}
	PodDisruptionBudget     = windlass.Kind{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}
	PriorityClass           = windlass.Kind{APIVersion: "scheduling.k8s.io/v1", Kind: "PriorityClass"}
)
