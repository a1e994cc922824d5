// A number of Pods of one image: the smallest useful operator.

import { customResource, kinds, plugin, t } from '@windlass/plugin';

const parent = customResource({
  group: 'my-operator.dev',
  version: 'v1',
  kind: 'Echo',
  shortNames: ['ec'],
  columns: [
    { name: 'Wanted', type: 'integer', jsonPath: '.spec.replicas' },
    { name: 'Current', type: 'integer', jsonPath: '.status.currentReplicas' },
  ],
  // The name is the value of a label, and the Pods' names append up to `-999` to it.
  rules: [{ rule: 'size(self.metadata.name) <= 59', message: 'name over 59 characters' }],
  spec: t.object(
    {
      replicas: t.integer({ description: 'How many Pods.', minimum: 0, maximum: 1000 }),
      image: t.string({ description: 'The image that they run.', minLength: 1, pattern: /^\S+$/ }),
    },
    { description: 'As many Pods as asked for.' },
  ),
  status: t.object(
    {
      currentReplicas: t.integer({ description: 'Pods that exist.', minimum: 0 }),
      isReady: t.boolean({ description: 'As many as asked for, and all Ready.' }),
    },
    { description: 'What became of it.' },
  ),
});

export default plugin({
  name: 'echo',
  version: '0.1.0',
  description: 'Runs as many Pods of an image as asked for',
  parent,
  children: [kinds.Pod],
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
