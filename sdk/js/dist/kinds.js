/** Kinds of Kubernetes objects. */
/**
 * Names a kind.
 *
 * ```ts
 * const Certificate = kind('cert-manager.io/v1', 'Certificate');
 * const Pod = kind<V1Pod>('v1', 'Pod'); // with a type of @kubernetes/client-node
 * ```
 */
export function kind(apiVersion, name) {
    return Object.freeze({ apiVersion, name });
}
/** A kind of the contract. @internal */
export function kindOf(kind, path) {
    if (kind?.apiVersion === undefined || kind.name === undefined) {
        throw new TypeError(`${path} is not a kind`);
    }
    return { apiVersion: kind.apiVersion, name: kind.name };
}
/** Kinds that many plugins need. */
export const kinds = Object.freeze({
    /** `v1` ConfigMap. */
    ConfigMap: kind('v1', 'ConfigMap'),
    /** `v1` LimitRange. */
    LimitRange: kind('v1', 'LimitRange'),
    /** `v1` Namespace. */
    Namespace: kind('v1', 'Namespace'),
    /** `v1` PersistentVolumeClaim. */
    PersistentVolumeClaim: kind('v1', 'PersistentVolumeClaim'),
    /** `v1` Pod. */
    Pod: kind('v1', 'Pod'),
    /** `v1` ResourceQuota. */
    ResourceQuota: kind('v1', 'ResourceQuota'),
    /** `v1` Secret. */
    Secret: kind('v1', 'Secret'),
    /** `v1` Service. */
    Service: kind('v1', 'Service'),
    /** `v1` ServiceAccount. */
    ServiceAccount: kind('v1', 'ServiceAccount'),
    /** `apps/v1` DaemonSet. */
    DaemonSet: kind('apps/v1', 'DaemonSet'),
    /** `apps/v1` Deployment. */
    Deployment: kind('apps/v1', 'Deployment'),
    /** `apps/v1` StatefulSet. */
    StatefulSet: kind('apps/v1', 'StatefulSet'),
    /** `autoscaling/v2` HorizontalPodAutoscaler. */
    HorizontalPodAutoscaler: kind('autoscaling/v2', 'HorizontalPodAutoscaler'),
    /** `batch/v1` CronJob. */
    CronJob: kind('batch/v1', 'CronJob'),
    /** `batch/v1` Job. */
    Job: kind('batch/v1', 'Job'),
    /** `networking.k8s.io/v1` Ingress. */
    Ingress: kind('networking.k8s.io/v1', 'Ingress'),
    /** `networking.k8s.io/v1` NetworkPolicy. */
    NetworkPolicy: kind('networking.k8s.io/v1', 'NetworkPolicy'),
    /** `rbac.authorization.k8s.io/v1` ClusterRole. */
    ClusterRole: kind('rbac.authorization.k8s.io/v1', 'ClusterRole'),
    /** `rbac.authorization.k8s.io/v1` ClusterRoleBinding. */
    ClusterRoleBinding: kind('rbac.authorization.k8s.io/v1', 'ClusterRoleBinding'),
    /** `rbac.authorization.k8s.io/v1` Role. */
    Role: kind('rbac.authorization.k8s.io/v1', 'Role'),
    /** `rbac.authorization.k8s.io/v1` RoleBinding. */
    RoleBinding: kind('rbac.authorization.k8s.io/v1', 'RoleBinding'),
    /** `policy/v1` PodDisruptionBudget. */
    PodDisruptionBudget: kind('policy/v1', 'PodDisruptionBudget'),
    /** `scheduling.k8s.io/v1` PriorityClass. */
    PriorityClass: kind('scheduling.k8s.io/v1', 'PriorityClass'),
});
