//! The shapes of built-in kinds: what the schema of Kubernetes says beyond objects with declared fields and atomic lists.

use crate::shape::Shape;

/// How the fields of a kind merge.
///
/// In: the API group (empty for core) and the kind. A kind that is not built in gets [`Shape::custom`]: a status subresource,
/// and declared fields; say with [`Shape::with`] where lists have keys or objects are maps.
pub fn shape_of(group: &str, kind: &str) -> Shape {
    match (group, kind) {
        ("", "ConfigMap") => Shape::built_in(&[("", "data map\nbinaryData map")], false),
        ("", "Secret") => Shape::built_in(&[("", "data map\nstringData map")], false),
        ("", "Service") => Shape::built_in(&[("", SPEC_AND_STATUS), ("", CONDITION), ("", SERVICE)], true),
        ("", "ServiceAccount") => Shape::built_in(&[("", "secrets keys name atomic")], false),
        ("", "Namespace") => Shape::built_in(&[("", SPEC_AND_STATUS)], true),
        ("", "Event") => Shape::built_in(&[("", EVENT)], false),
        ("events.k8s.io", "Event") => Shape::built_in(&[("", NEW_EVENT)], false),
        ("coordination.k8s.io", "Lease") => Shape::built_in(&[("", "spec present")], false),
        ("", "Pod") => pods(""),
        ("apps", "Deployment") => pods("spec.template.").status_keeps_labels(),
        ("apps", "ReplicaSet" | "StatefulSet" | "DaemonSet") | ("batch", "Job") => pods("spec.template."),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => Shape::built_in(&[], false),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            Shape::built_in(&[("", "roleRef atomic\nroleRef present")], false)
        }
        ("policy", "PodDisruptionBudget") => Shape::built_in(
            &[("", SPEC_AND_STATUS), ("", CONDITION), ("", "spec.selector atomic\nstatus.disruptedPods map")],
            true,
        ),
        _ => Shape::custom(),
    }
}

const SPEC_AND_STATUS: &str = "spec present
status present
status.conditions keys type=
status.conditions.status text";

const CONDITION: &str = "status.conditions.lastTransitionTime null
status.conditions.reason text
status.conditions.message text";

const SERVICE: &str = "spec.ports keys port=0,protocol=TCP
spec.selector atomic-map
status.loadBalancer present";

const EVENT: &str = "involvedObject atomic
involvedObject present
related atomic
source present
eventTime null
firstTimestamp null
lastTimestamp null
reportingComponent text
reportingInstance text";

const NEW_EVENT: &str = "regarding atomic
regarding present
related atomic
deprecatedSource present
eventTime null
deprecatedFirstTimestamp null
deprecatedLastTimestamp null";

const POD: &str = "containers keys name=
containers null
initContainers keys name=
ephemeralContainers keys name=
affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution atomic
hostAliases keys ip=
imagePullSecrets keys name= atomic
nodeSelector atomic-map
overhead map
resourceClaims keys name=
resources.claims keys name=
resources.limits map
resources.requests map
schedulingGates keys name=
topologySpreadConstraints keys topologyKey=,whenUnsatisfiable=
topologySpreadConstraints.labelSelector atomic
volumes keys name=
volumes.csi.nodePublishSecretRef atomic
volumes.csi.volumeAttributes map";

const CONTAINER: &str = "env keys name=
env.valueFrom.configMapKeyRef atomic
env.valueFrom.fieldRef atomic
env.valueFrom.resourceFieldRef atomic
env.valueFrom.secretKeyRef atomic
ports keys containerPort=0,protocol=TCP
resources present
resources.claims keys name=
resources.limits map
resources.requests map
volumeDevices keys devicePath=
volumeMounts keys mountPath=";

const TEMPLATE: &str = "metadata present
metadata.annotations map
metadata.finalizers set
metadata.labels map
metadata.ownerReferences keys uid= atomic
spec present";

/// A kind that contains the spec of a Pod, below this prefix of a path.
fn pods(prefix: &str) -> Shape {
    let at = |inner: &str| format!("{prefix}{inner}");
    let (pod, containers) = (at("spec."), at("spec.containers."));
    let (init, ephemeral) = (at("spec.initContainers."), at("spec.ephemeralContainers."));
    let mut rules = vec![("", SPEC_AND_STATUS)];
    if !prefix.is_empty() {
        rules.extend([("", "spec.selector atomic\nspec.strategy present\nspec.template present"), (prefix, TEMPLATE)]);
    }
    let containers = [containers, init, ephemeral];
    rules.push((&pod, POD));
    rules.extend(containers.iter().map(|prefix| (prefix.as_str(), CONTAINER)));
    Shape::built_in(&rules, true)
}
