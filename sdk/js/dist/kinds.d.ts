/** Kinds of Kubernetes objects. */
import type * as contract from './contract.js';
/** The fields of an object's `metadata` that plugins write. */
export interface ObjectMeta {
    /** The name. */
    name?: string | undefined;
    /** The namespace. Leave it out of children in the parent's namespace: the host sets it. */
    namespace?: string | undefined;
    /** The labels. */
    labels?: Record<string, string> | undefined;
    /** The annotations. */
    annotations?: Record<string, string> | undefined;
    /** All others. */
    [field: string]: any;
}
/**
 * A Kubernetes object as a plain object. Its other fields have any type; for more, give {@link kind} a type, such as `V1Pod` of
 * `@kubernetes/client-node`.
 */
export interface KubernetesObject {
    /** As in `apps/v1`. */
    apiVersion?: string | undefined;
    /** As in `Deployment`. */
    kind?: string | undefined;
    /** The metadata. */
    metadata?: ObjectMeta | undefined;
    /** All others. */
    [field: string]: any;
}
declare const objectType: unique symbol;
/** A kind of objects, by the fields `apiVersion` and `kind`; {@link LiveObject.object} has the type `T`. */
export interface Kind<T = KubernetesObject> extends contract.Kind {
    /** Only for the compiler. */
    readonly [objectType]?: T;
}
/**
 * Names a kind.
 *
 * ```ts
 * const Certificate = kind('cert-manager.io/v1', 'Certificate');
 * const Pod = kind<V1Pod>('v1', 'Pod'); // with a type of @kubernetes/client-node
 * ```
 */
export declare function kind<T = KubernetesObject>(apiVersion: string, name: string): Kind<T>;
/** Kinds that many plugins need. */
export declare const kinds: Readonly<{
    /** `v1` ConfigMap. */
    ConfigMap: Kind<KubernetesObject>;
    /** `v1` LimitRange. */
    LimitRange: Kind<KubernetesObject>;
    /** `v1` Namespace. */
    Namespace: Kind<KubernetesObject>;
    /** `v1` PersistentVolumeClaim. */
    PersistentVolumeClaim: Kind<KubernetesObject>;
    /** `v1` Pod. */
    Pod: Kind<KubernetesObject>;
    /** `v1` ResourceQuota. */
    ResourceQuota: Kind<KubernetesObject>;
    /** `v1` Secret. */
    Secret: Kind<KubernetesObject>;
    /** `v1` Service. */
    Service: Kind<KubernetesObject>;
    /** `v1` ServiceAccount. */
    ServiceAccount: Kind<KubernetesObject>;
    /** `apps/v1` DaemonSet. */
    DaemonSet: Kind<KubernetesObject>;
    /** `apps/v1` Deployment. */
    Deployment: Kind<KubernetesObject>;
    /** `apps/v1` StatefulSet. */
    StatefulSet: Kind<KubernetesObject>;
    /** `autoscaling/v2` HorizontalPodAutoscaler. */
    HorizontalPodAutoscaler: Kind<KubernetesObject>;
    /** `batch/v1` CronJob. */
    CronJob: Kind<KubernetesObject>;
    /** `batch/v1` Job. */
    Job: Kind<KubernetesObject>;
    /** `networking.k8s.io/v1` Ingress. */
    Ingress: Kind<KubernetesObject>;
    /** `networking.k8s.io/v1` NetworkPolicy. */
    NetworkPolicy: Kind<KubernetesObject>;
    /** `rbac.authorization.k8s.io/v1` ClusterRole. */
    ClusterRole: Kind<KubernetesObject>;
    /** `rbac.authorization.k8s.io/v1` ClusterRoleBinding. */
    ClusterRoleBinding: Kind<KubernetesObject>;
    /** `rbac.authorization.k8s.io/v1` Role. */
    Role: Kind<KubernetesObject>;
    /** `rbac.authorization.k8s.io/v1` RoleBinding. */
    RoleBinding: Kind<KubernetesObject>;
    /** `policy/v1` PodDisruptionBudget. */
    PodDisruptionBudget: Kind<KubernetesObject>;
    /** `scheduling.k8s.io/v1` PriorityClass. */
    PriorityClass: Kind<KubernetesObject>;
}>;
export {};
