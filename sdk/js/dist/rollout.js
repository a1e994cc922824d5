/** Rollouts of workloads, from their status. */
/**
 * Returns the rollout of a live Deployment, StatefulSet or DaemonSet; counts that cannot be read are 0. An object that does not exist has no
 * Pods, and is progressing.
 *
 * ```ts
 * const { state, ready } = rollout(request.child(kinds.StatefulSet, request.name));
 * ```
 */
export function rollout(workload) {
    const { metadata = {}, spec = {}, status = {} } = workload?.object ?? {};
    const kind = workload?.kind.name;
    // The API server's default of `spec.replicas` is 1.
    const [desired, names] = kind === 'DaemonSet'
        ? [count(status.desiredNumberScheduled), ['currentNumberScheduled', 'updatedNumberScheduled', 'numberReady', 'numberAvailable']]
        : [count(spec.replicas, workload && 1), ['replicas', 'updatedReplicas', 'readyReplicas', 'availableReplicas']];
    const [replicas = 0, updated = 0, ready = 0, available = 0] = names.map((name) => count(status[name]));
    const isOutdated = count(status.observedGeneration) < count(metadata.generation);
    const pods = { desired, replicas, updated, ready, available, isOutdated, failure: '' };
    if (workload === undefined || isOutdated) {
        return { ...pods, state: 'Progressing' };
    }
    const failure = kind === 'Deployment' ? failureOf(workload) : undefined;
    if (failure !== undefined) {
        return { ...pods, state: 'Failed', failure };
    }
    const { type, rollingUpdate } = (kind !== 'Deployment' && spec.updateStrategy) || {};
    // The number of Pods that keep their revision.
    const kept = type === 'OnDelete' ? desired : count(rollingUpdate?.partition);
    const isUpdated = updated === desired || (kept > 0 && updated + kept >= desired);
    const isComplete = isUpdated && [replicas, ready, available].every((number) => number === desired);
    return { ...pods, state: isComplete ? 'Complete' : 'Progressing' };
}
/** A message for users: `2/3 replicas ready`, followed by the message of a failed rollout. `desired` is the parent's number of replicas. */
export function rolloutMessage({ ready, state, failure }, desired) {
    const message = `${ready}/${desired} replicas ready`;
    return state === 'Failed' ? `${message}: ${failure}` : message;
}
function count(value, otherwise = 0) {
    return typeof value === 'number' ? value : otherwise;
}
function failureOf(deployment) {
    const created = deployment.condition('ReplicaFailure');
    const progressing = deployment.condition('Progressing');
    if (created?.status === 'True') {
        return created.message ?? '';
    }
    return progressing?.reason === 'ProgressDeadlineExceeded' ? (progressing.message ?? '') : undefined;
}
