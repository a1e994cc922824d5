// The guest: it writes into a ConfigMap what a plugin in JavaScript sees of the machine it runs on.

const encode = (value) => new TextEncoder().encode(JSON.stringify(value));

export const reconciler = {
  describe: () => ({
    name: 'js',
    version: '0.1.0',
    description: 'Shows what a plugin in JavaScript sees.',
    parent: { tag: 'custom', val: encode(definition()) },
    children: [{ kind: { apiVersion: 'v1', name: 'ConfigMap' }, update: { tag: 'apply' } }],
    related: [],
    finalizes: false,
    metrics: [],
    extensions: [],
  }),

  // Returns one ConfigMap that shows what this call sees.
  reconcile: (request) => {
    const parent = JSON.parse(new TextDecoder().decode(request.parent));
    const data = seen();
    if (parent.spec?.wallClock) {
      data.wallClock = new Date().toISOString();
    }
    const child = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: `${parent.metadata.name}-seen` },
      data,
    };
    return { children: [encode(child)], events: [], requirements: [], finalized: false, extensions: [] };
  },
};

const seen = () => {
  const before = performance.now();
  const random = `${Math.random()} ${crypto.getRandomValues(new Uint8Array(8))}`;
  const order = [...new Set('one two three four five six seven eight nine ten eleven twelve'.split(' '))];
  return {
    random,
    order: order.join(' '),
    // An engine with an environment, arguments and files would have them here.
    environment: Object.keys(globalThis.process?.env ?? {}).join(' '),
    arguments: (globalThis.process?.argv ?? []).join(' '),
    files: globalThis.process?.cwd?.() ?? '',
    elapsed: `${performance.now() - before}`,
  };
};

const definition = () => ({
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'jsguests.languages.example' },
  spec: {
    group: 'languages.example',
    names: { kind: 'JsGuest', listKind: 'JsGuestList', plural: 'jsguests', singular: 'jsguest' },
    scope: 'Namespaced',
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        subresources: { status: {} },
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: { spec: { type: 'object', properties: { wallClock: { type: 'boolean' } } } },
          },
        },
      },
    ],
  },
});
