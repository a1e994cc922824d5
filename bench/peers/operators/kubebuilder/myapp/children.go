package main

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	aappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	acorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	ametav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	anetworkingv1 "k8s.io/client-go/applyconfigurations/networking/v1"

	v1 "windlass.dev/bench/kubebuilder/myapp/api/v1"
)

func owner(app *v1.MyApp) *ametav1.OwnerReferenceApplyConfiguration {
	return ametav1.OwnerReference().
		WithAPIVersion(v1.GroupVersion.String()).
		WithKind("MyApp").
		WithName(app.Name).
		WithUID(app.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
}

// labels are the labels of all children. A Deployment's selector is immutable, so they never change.
func labels(app *v1.MyApp) map[string]string {
	return map[string]string{"app": app.Name, "managed-by": "windlass"}
}

func deployment(app *v1.MyApp) *aappsv1.DeploymentApplyConfiguration {
	container := acorev1.Container().
		WithName("app").
		WithImage(app.Spec.Image).
		WithPorts(acorev1.ContainerPort().WithName("http").WithContainerPort(app.Spec.Port)).
		WithResources(acorev1.ResourceRequirements().WithRequests(corev1.ResourceList{
			corev1.ResourceCPU:    app.Spec.Resources.CPU,
			corev1.ResourceMemory: app.Spec.Resources.Memory,
		}))
	for _, variable := range app.Spec.Env {
		container.WithEnv(acorev1.EnvVar().WithName(variable.Name).WithValue(variable.Value))
	}
	template := acorev1.PodTemplateSpec().
		WithLabels(labels(app)).
		WithSpec(acorev1.PodSpec().WithContainers(container))
	selector := ametav1.LabelSelector().WithMatchLabels(map[string]string{"app": app.Name})
	return aappsv1.Deployment(app.Name, app.Namespace).
		WithLabels(labels(app)).
		WithOwnerReferences(owner(app)).
		WithSpec(aappsv1.DeploymentSpec().
			WithReplicas(app.Spec.Replicas).
			WithSelector(selector).
			WithTemplate(template))
}

func service(app *v1.MyApp) *acorev1.ServiceApplyConfiguration {
	port := acorev1.ServicePort().
		WithName("http").
		WithPort(app.Spec.Port).
		WithTargetPort(intstr.FromString("http"))
	return acorev1.Service(app.Name, app.Namespace).
		WithLabels(labels(app)).
		WithOwnerReferences(owner(app)).
		WithSpec(acorev1.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithSelector(map[string]string{"app": app.Name}).
			WithPorts(port))
}

func ingress(app *v1.MyApp, host string) *anetworkingv1.IngressApplyConfiguration {
	port := anetworkingv1.ServiceBackendPort().WithName("http")
	backend := anetworkingv1.IngressBackend().
		WithService(anetworkingv1.IngressServiceBackend().WithName(app.Name).WithPort(port))
	path := anetworkingv1.HTTPIngressPath().
		WithPath("/").
		WithPathType(networkingv1.PathTypePrefix).
		WithBackend(backend)
	rule := anetworkingv1.IngressRule().
		WithHost(host).
		WithHTTP(anetworkingv1.HTTPIngressRuleValue().WithPaths(path))
	return anetworkingv1.Ingress(app.Name, app.Namespace).
		WithLabels(labels(app)).
		WithOwnerReferences(owner(app)).
		WithSpec(anetworkingv1.IngressSpec().WithRules(rule))
}
