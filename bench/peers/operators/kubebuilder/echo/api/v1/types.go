// Package v1 has the types of Echo.
// +kubebuilder:object:generate=true
// +groupName=my-operator.dev
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types.
var GroupVersion = schema.GroupVersion{Group: "my-operator.dev", Version: "v1"}

// AddToScheme adds the types to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Echo{}, &EchoList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// EchoSpec is the desired state of an Echo.
type EchoSpec struct {
	// Desired number of Pods, 0 to 1000.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas int32 `json:"replicas"`
	// Container image of the Pods.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:Pattern=`^\S+$`
	Image string `json:"image"`
}

// EchoStatus is the observed state of an Echo.
type EchoStatus struct {
	// Number of Pods that exist.
	CurrentReplicas int32 `json:"currentReplicas"`
	// Whether the desired number of Pods exists and all of them are Ready.
	IsReady            bool  `json:"isReady"`
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Echo is a number of Pods of one image.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ec
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name=Desired,type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name=Current,type=integer,JSONPath=`.status.currentReplicas`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// The name is the value of a label, and the Pods' names append up to -999 to it.
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 59",message="name over 59 characters"
type Echo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   EchoSpec   `json:"spec"`
	Status EchoStatus `json:"status,omitempty"`
}

// EchoList is a list of Echoes.
// +kubebuilder:object:root=true
type EchoList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Echo `json:"items"`
}
