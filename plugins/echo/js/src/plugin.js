// A number of Pods of one image: the smallest useful operator.

import { customResource, kinds, plugin, t } from '@windlass/plugin';

const parent = customResource({
  group: 'my-operator.dev',
  version: 'v1',
  kind: 'Echo',
  shortNames: ['ec'],
  columns: [
    { name: 'Desired', type: 'integer', jsonPath: '.spec.replicas' },
    { name: 'Current', type: 'integer', jsonPath: '.status.currentReplicas' },
  ],
  // The name is the value of a label, and the Pods' names append up to `-999` to it.
  rules: [{ rule: 'size(self.metadata.name) <= 59', message: 'name over 59 characters' }],
  spec: t.object(
    {
      replicas: t.integer({ description: 'Desired number of Pods, 0 to 1000.', minimum: 0, maximum: 1000 }),
      image: t.string({ description: 'Container image of the Pods.', minLength: 1, pattern: /^\S+$/ }),
    },
    { description: 'Desired state of an Echo.' },
  ),
  status: t.object(
    {
      currentReplicas: t.integer({ description: 'Number of Pods that exist.', minimum: 0 }),
      isReady: t.boolean({ description: 'Whether the desired number of Pods exists and all of them are Ready.' }),
    },
    { description: 'Observed state of an Echo.' },
  ),
});

export default plugin({
  name: 'echo',
  version: '0.1.0',
  description: 'Runs the desired number of Pods of an image',
  parent,
  children: [kinds.Pod],
  // A cluster without nodes has Pods as well, which never become Ready.
  readyMeans: 'applied',
  resync: '5m',

  reconcile(request) {
    const { name, uid, spec } = request;
    const pods = Array.from({ length: spec.replicas }, (_, index) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: `${name}-${index}`, labels: { app: name, owner: uid } },
      spec: { containers: [{ name: 'nginx', image: spec.image }] },
    }));
    const current = request.childrenOf(kinds.Pod);
    const ready = current.filter((pod) => pod.isConditionTrue('Ready')).length;
    return {
      children: pods,
      status: {
        currentReplicas: current.length,
        isReady: ready === current.length && ready === spec.replicas,
      },
    };
  },
});
