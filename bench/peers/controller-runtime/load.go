package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "bench.example", Version: "v1"}

// Load is the parent.
type Load struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   LoadSpec   `json:"spec,omitempty"`
	Status LoadStatus `json:"status,omitempty"`
}

// LoadSpec is the desired state.
type LoadSpec struct {
	Children int    `json:"children"`
	Payload  int    `json:"payload"`
	Note     string `json:"note"`
}

// LoadStatus is the observed state.
type LoadStatus struct {
	Wanted             int                `json:"wanted"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// LoadList is a list of parents.
type LoadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Load `json:"items"`
}

// DeepCopyObject copies the object, as the scheme requires.
func (l *Load) DeepCopyObject() runtime.Object {
	return l.deepCopy()
}

func (l *Load) deepCopy() *Load {
	copied := *l
	l.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	copied.Status.Conditions = append([]metav1.Condition(nil), l.Status.Conditions...)
	return &copied
}

// DeepCopyObject copies the object, as the scheme requires.
func (l *LoadList) DeepCopyObject() runtime.Object {
	copied := *l
	l.ListMeta.DeepCopyInto(&copied.ListMeta)
	copied.Items = make([]Load, 0, len(l.Items))
	for i := range l.Items {
		copied.Items = append(copied.Items, *l.Items[i].deepCopy())
	}
	return &copied
}

func addLoads(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(groupVersion, &Load{}, &LoadList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
}
