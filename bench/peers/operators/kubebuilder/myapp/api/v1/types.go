// Package v1 has the types of MyApp.
// +kubebuilder:object:generate=true
// +groupName=example.com
package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types.
var GroupVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

// AddToScheme adds the types to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &MyApp{}, &MyAppList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// MyAppSpec is the desired state of a MyApp.
type MyAppSpec struct {
	// Container image of the Pods.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^\S+$`
	Image string `json:"image"`
	// Desired number of Pods, 1 to 100. Default: 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Replicas int32 `json:"replicas"`
	// Port of the container and of the Service, 1 to 65535. Default: 8080.
	// +kubebuilder:default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port"`
	// Compute resources that each Pod requests.
	// +kubebuilder:default={}
	// +optional
	Resources Resources `json:"resources"`
	// Environment variables of the container, at most 500. Their names must be unique.
	// +kubebuilder:default={}
	// +kubebuilder:validation:MaxItems=500
	// +listType=map
	// +listMapKey=name
	// +optional
	Env []EnvVar `json:"env"`
	// Host name of the Ingress. If unset, there is no Ingress.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +nullable
	// +optional
	IngressHost *string `json:"ingressHost,omitempty"`
}

// Resources are the compute resources that each Pod requests.
// +kubebuilder:validation:XValidation:rule="quantity(string(self.cpu)).isGreaterThan(quantity('0'))",message="cpu must be more than 0",fieldPath=".cpu"
// +kubebuilder:validation:XValidation:rule="quantity(string(self.memory)).isGreaterThan(quantity('0'))",message="memory must be more than 0",fieldPath=".memory"
type Resources struct {
	// CPU request of each Pod, as in `500m`. Default: 100m.
	// +kubebuilder:default="100m"
	// +optional
	CPU resource.Quantity `json:"cpu"`
	// Memory request of each Pod, as in `256Mi`. Default: 128Mi.
	// +kubebuilder:default="128Mi"
	// +optional
	Memory resource.Quantity `json:"memory"`
}

// EnvVar is an environment variable.
type EnvVar struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z][-._a-zA-Z0-9]*$`
	Name string `json:"name"`
	// +kubebuilder:default=""
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Value string `json:"value"`
}

// Phase is the phase of an application.
// +kubebuilder:validation:Enum=Pending;Running;Failed
type Phase string

// The phases.
const (
	Pending Phase = "Pending"
	Running Phase = "Running"
	Failed  Phase = "Failed"
)

// MyAppStatus is the observed state of a MyApp.
type MyAppStatus struct {
	Phase Phase `json:"phase"`
	// Number of Pods that exist.
	Replicas int32 `json:"replicas"`
	// Number of Ready Pods.
	ReadyReplicas int32 `json:"readyReplicas"`
	// Number of available Pods.
	AvailableReplicas int32 `json:"availableReplicas"`
	// Time of the last change of this status.
	LastUpdateTime metav1.Time `json:"lastUpdateTime"`
	// Summary of the status for users.
	Message            string `json:"message"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MyApp is a web application.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=myapps,shortName=ma
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name=Phase,type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name=Replicas,type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// The Service has the same name.
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",message="name must be a label of DNS that begins with a letter (a-z, 0-9, -), at most 63 characters"
type MyApp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MyAppSpec   `json:"spec"`
	Status MyAppStatus `json:"status,omitempty"`
}

// MyAppList is a list of MyApps.
// +kubebuilder:object:root=true
type MyAppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MyApp `json:"items"`
}
