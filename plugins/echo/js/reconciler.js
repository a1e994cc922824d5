// Echo in JavaScript: as many Pods as asked for.

import definition from './crd.json' with { type: 'json' };

const encode = (value) => new TextEncoder().encode(JSON.stringify(value));
const decode = (bytes) => JSON.parse(new TextDecoder().decode(bytes));

export const reconciler = {
  // Says what the plugin is.
  describe: () => ({
    name: 'echo',
    version: '0.1.0',
    description: 'Runs as many Pods of an image as asked for',
    parent: { tag: 'custom', val: encode(definition) },
    children: [{ kind: { apiVersion: 'v1', name: 'Pod' }, update: { tag: 'apply' } }],
    related: [],
    finalizes: false,
    resync: 300_000n,
    metrics: [],
    extensions: [],
  }),

  // Says which Pods should exist, and how those that do are.
  reconcile: (request) => {
    const { metadata, spec = {} } = decode(request.parent);
    check(spec);
    const pods = Array.from({ length: spec.replicas }, (_, index) => ({
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name: `${metadata.name}-${index}`,
        labels: { app: metadata.name, owner: metadata.uid },
      },
      spec: { containers: [{ name: 'nginx', image: spec.image }] },
    }));
    const ready = request.children.map((pod) => decode(pod.object)).filter(isReady).length;
    const current = request.children.length;
    const status = { currentReplicas: current, isReady: ready === current && ready === spec.replicas };
    return {
      children: pods.map(encode),
      status: encode(status),
      events: [],
      requirements: [],
      finalized: false,
      extensions: [],
    };
  },
};

// Throws what a user can act on, with the field that is wrong.
const check = ({ replicas, image }) => {
  const invalid = (message) => ({ tag: 'invalid', val: message });
  if (replicas === undefined) throw invalid('spec.replicas: is required');
  if (!Number.isInteger(replicas)) throw invalid(`spec.replicas: ${JSON.stringify(replicas)} is no whole number`);
  if (image === undefined) throw invalid('spec.image: is required');
  if (typeof image !== 'string') throw invalid(`spec.image: ${JSON.stringify(image)} is no text`);
  if (replicas < 0 || replicas > 1000) throw invalid(`spec.replicas: ${replicas} is not between 0 and 1000`);
  if (image === '' || /\s/.test(image)) {
    throw invalid(`spec.image: ${JSON.stringify(image)} is not the name of an image`);
  }
};

const isReady = (pod) =>
  pod.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false;
