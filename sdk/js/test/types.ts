// The static types, which only the compiler checks: every line under `@ts-expect-error` must be an error.

import {
  childWith,
  customResource,
  existing,
  kind,
  kinds,
  plugin,
  t,
  type Infer,
  type KubernetesObject,
  type Response,
} from '@windlass/plugin';

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;

/** Fails to compile unless both types are the same. */
function same<A, B>(_: Equal<A, B>): void {}

const spec = t.object({
  image: t.string({ minLength: 1 }),
  replicas: t.integer({ default: 1 }),
  size: t.enum(['small', 'large'], { default: 'small' }),
  big: t.bigint(),
  port: t.optional(t.intOrString()),
  env: t.array(t.object({ name: t.string(), value: t.optional(t.string()) }), { listType: 'map', listMapKeys: ['name'] }),
  labels: t.map(t.string()),
  resources: t.object({ cpu: t.quantity({ default: '100m' }) }, { default: {} }),
});

interface Spec {
  image: string;
  replicas: number;
  size: 'small' | 'large';
  big: bigint;
  port?: number | string | undefined;
  env: { name: string; value?: string | undefined }[];
  labels: Record<string, string>;
  resources: { cpu: string };
}

same<Infer<typeof spec>, { [K in keyof Spec]: Spec[K] }>(true);

// @ts-expect-error: not a member
t.enum(['a', 'b'], { default: 'c' });
// @ts-expect-error: not a field of the items
t.array(t.object({ name: t.string() }), { listType: 'map', listMapKeys: ['id'] });
// @ts-expect-error: an unknown option
t.string({ minimum: 1 });
// @ts-expect-error: a default of another type
t.integer({ default: '1' });

const parent = customResource({
  group: 'example.com',
  version: 'v1',
  kind: 'App',
  spec,
  status: t.object({ ready: t.boolean(), message: t.optional(t.string()) }),
});

/** As a Kubernetes type of another package: an interface whose fields may be absent. */
interface V1Pod {
  apiVersion?: string;
  kind?: string;
  metadata?: { name?: string };
  status?: { podIP?: string };
}

const Pod = kind<V1Pod>('v1', 'Pod');

plugin({
  name: 'app',
  version: '1.0.0',
  parent,
  config: t.object({ prefix: t.string() }),
  resync: '5m',
  reconcile(request) {
    same<typeof request.spec.replicas, number>(true);
    same<typeof request.config.prefix, string>(true);
    same<NonNullable<typeof request.status>['ready'], boolean>(true);
    // @ts-expect-error: not a field
    void request.spec.replica;
    // @ts-expect-error: may be undefined
    void request.spec.port.toString();
    // @ts-expect-error: there may be no status
    void request.status.ready;

    const [pod] = request.childrenOf(Pod);
    same<NonNullable<typeof pod>['object'], V1Pod>(true);
    const [related] = request.related('pods', Pod) ?? [];
    same<NonNullable<typeof related>['object'], V1Pod>(true);
    const typed: V1Pod = { metadata: { name: 'typed' } };
    const plain: KubernetesObject = request.child(kinds.Pod, 'a')?.object ?? {};
    return {
      children: [typed, plain, request.spec.image && { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'a' }, spec: {} }],
      status: { ready: true },
      requeue: '30s',
    };
  },
});

// @ts-expect-error: a field of the status is missing
plugin({ name: 'app', version: '1.0.0', parent, reconcile: () => ({ status: {} }) });
// @ts-expect-error: not a unit of time
plugin({ name: 'app', version: '1.0.0', parent, resync: '5 minutes', reconcile: () => ({}) });
// @ts-expect-error: a response is not a Promise
plugin({ name: 'app', version: '1.0.0', parent, reconcile: async () => ({}) });

const requirements: Response['requirements'] = [
  { id: 'a', kind: kinds.Secret, name: 'b' },
  { id: 'a', kind: kinds.Secret, namespaces: 'all', labelSelector: { matchLabels: { a: 'b' } } },
  // @ts-expect-error: by name or by labels
  { id: 'a', kind: kinds.Secret, name: 'b', labels: 'c' },
];
void requirements;

// @ts-expect-error: not an option of a child
childWith({ metadata: { name: 'a' } }, { retained: true });
const typed: V1Pod = childWith<V1Pod>({ metadata: { name: 'a' } }, { stage: 1 });
void typed;

plugin({
  name: 'guard',
  version: '1.0.0',
  parent: existing({ kind: kinds.Namespace }),
  reconcile: ({ parent }) => ({ status: { phase: parent['status'].phase } }),
});
