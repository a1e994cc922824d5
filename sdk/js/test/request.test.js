// What a plugin sees in a request.

import assert from 'node:assert/strict';
import test from 'node:test';

import { existing, kind, kinds, plugin } from '@windlass/plugin';
import { call, withReadiness } from '@windlass/plugin/testing';

/**
 * Returns what a plugin on ConfigMaps sees in its request.
 *
 * @param {(request: import('@windlass/plugin').Request) => any} look
 * @param {Partial<import('@windlass/plugin/testing').CallOptions>} options
 */
function see(look, options = {}) {
  const { ConfigMap, Deployment, Ingress, Job, Pod } = kinds;
  /** @type {any} */
  let seen;
  const sees = plugin({
    name: 'sees',
    version: '1.0.0',
    parent: existing({ kind: ConfigMap }),
    children: [ConfigMap, Deployment, Pod, { kind: Ingress, optional: true }],
    related: [{ kind: Job, optional: true }],
    reconcile(request) {
      seen = look(request);
      return {};
    },
  });
  call(sees, { parent: { metadata: { name: 'a' } }, ...options });
  return seen;
}

test('metadata has all its fields', () => {
  const metadata = { name: 'a', uid: 'u', generation: 3, labels: { b: 'c' }, deletionTimestamp: '2026-01-01T00:00:00Z' };
  const options = { parent: { metadata, data: { k: 'v' } } };
  assert.deepEqual(see((request) => request.metadata, options), { ...metadata, annotations: {} });
  assert.deepEqual(see(({ name, namespace, uid }) => [name, namespace, uid], options), ['a', undefined, 'u']);
  assert.deepEqual(see(({ parent }) => [parent.kind, parent['data']], options), ['ConfigMap', { k: 'v' }]);
});

test('a child is found by kind, namespace and name, in the order of the host', () => {
  const child = (/** @type {string} */ kind, /** @type {string | undefined} */ namespace, name = 'c') => ({
    apiVersion: 'v1',
    kind,
    metadata: { name, namespace },
    data: { k: `${namespace}/${name}` },
  });
  const options = {
    parent: { metadata: { name: 'p', namespace: 'b' } },
    children: [child('Pod', 'b', 'a'), child('ConfigMap', 'b'), child('ConfigMap', 'a'), child('ConfigMap', 'b', 'b')],
  };
  const key = (/** @type {any} */ child) => child?.object.data.k;
  assert.deepEqual(see((request) => request.children.map(key), options), ['a/c', 'b/b', 'b/c', 'b/a']);
  assert.deepEqual(see((request) => request.childrenOf(kinds.ConfigMap).map(key), options), ['a/c', 'b/b', 'b/c']);
  assert.equal(see((request) => key(request.child(kinds.ConfigMap, 'c')), options), 'b/c');
  assert.equal(see((request) => key(request.child(kinds.ConfigMap, 'c', 'a')), options), 'a/c');
  assert.equal(see((request) => request.child(kinds.ConfigMap, 'd'), options), undefined);
  assert.equal(see((request) => request.child(kind('v2', 'ConfigMap'), 'c'), options), undefined);
});

test('a live object has conditions and tells whether it is being deleted', () => {
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'a', deletionTimestamp: '2026-01-01T00:00:00Z' },
    status: {
      conditions: [
        { type: 'Ready', status: 'True' },
        { type: 'Scheduled', status: 'False', reason: 'NoNode' },
      ],
    },
  };
  const [deleted, fresh] = see((request) => request.childrenOf(kinds.Pod), {
    children: [pod, { ...pod, metadata: { name: 'b' }, status: {} }],
  });
  assert.deepEqual([deleted.isBeingDeleted, fresh.isBeingDeleted], [true, false]);
  assert.deepEqual([deleted.isConditionTrue('Ready'), deleted.isConditionTrue('Scheduled')], [true, false]);
  assert.equal(deleted.condition('Scheduled').reason, 'NoNode');
  assert.equal(fresh.condition('Ready'), undefined);
});

test('a live object is ready or not, as the host tells, unless the test does', () => {
  const object = (/** @type {string} */ kind, /** @type {string} */ name) => ({ apiVersion: 'v1', kind, metadata: { name } });
  const pod = (/** @type {string} */ name) => object('Pod', name);
  const changed = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'e', generation: 2 }, status: { observedGeneration: 1 } };
  const options = {
    children: [
      changed,
      withReadiness(pod('c'), 'ready'),
      withReadiness(pod('b'), 'unknown'),
      withReadiness(pod('a'), 'failed', 'no image'),
    ],
    related: { pods: [withReadiness(pod('d'), 'progressing', '1/2 ready')], widgets: [changed, object('ConfigMap', 'a')] },
  };
  const objects = see((request) => ['pods', 'widgets'].flatMap((id) => request.related(id) ?? []).concat(request.children), options);
  assert.deepEqual(
    objects.map((/** @type {any} */ object) => [object.isReady, object.readiness]),
    [
      [false, { state: 'progressing', message: '1/2 ready' }],
      [false, { state: 'progressing', message: 'its controller has not seen its latest change yet' }],
      [true, { state: 'ready', message: '' }],
      [false, { state: 'progressing', message: 'its controller has not seen its latest change yet' }],
      [false, { state: 'failed', message: 'no image' }],
      [false, { state: 'unknown', message: '' }],
      [true, { state: 'ready', message: '' }],
    ],
  );
});

test('a spec is applied when the host has observed it and is not stalled', () => {
  const isApplied = (/** @type {any} */ status) =>
    see((request) => request.isSpecApplied, { parent: { metadata: { name: 'a', generation: 2 }, status } });
  const stalled = (/** @type {string} */ status, reason = 'InvalidSpec') => ({
    observedGeneration: 2,
    conditions: [{ type: 'Stalled', status, reason }],
  });
  assert.equal(isApplied({ observedGeneration: 2 }), true);
  assert.equal(isApplied(stalled('False')), true);
  assert.equal(isApplied(stalled('True')), false);
  assert.equal(isApplied(stalled('True', 'ChildFailed')), true, 'the child was applied before it failed');
  assert.equal(isApplied({ observedGeneration: 1 }), false);
  assert.equal(isApplied(undefined), false);
});

test('an optional kind is there or not', () => {
  const seen = (/** @type {object} */ options) =>
    see((request) => [kinds.Ingress, kinds.Job, kinds.Pod].map((kind) => request.hasKind(kind)), options);
  assert.deepEqual(seen({}), [true, true, false], 'all optional kinds exist in a test that does not say otherwise');
  assert.deepEqual(seen({ kinds: [kinds.Job] }), [false, true, false]);
});

test('a request names the children that it leaves out and the namespaces that are closed', () => {
  const leftOut = [{ kind: kinds.ConfigMap, namespace: 'web', name: 'large', size: 4_000_000 }];
  assert.deepEqual(see((request) => request.leftOut, { leftOut }), leftOut);
  assert.deepEqual(see((request) => request.closedNamespaces, { closedNamespaces: ['windlass'] }), ['windlass']);
});

test('a clean-up has its cause', () => {
  const cause = (/** @type {object} */ options) => see((request) => request.cause, options);
  assert.equal(cause({}), undefined);
  assert.equal(cause({ finalize: true }), 'deleted');
  assert.equal(cause({ finalize: true, cause: 'left-namespaces' }), 'left-namespaces');
});

test('a generated value stays, as the Secret has it', () => {
  const { ConfigMap, Secret } = kinds;
  const database = plugin({
    name: 'database',
    version: '1.0.0',
    parent: existing({ kind: ConfigMap }),
    children: [Secret],
    reconcile(request) {
      const data = { password: btoa(request.generated('db', 'password')), user: btoa(request.generated('db', 'user', () => 'admin')) };
      return { children: [{ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'db' }, data }] };
    },
  });
  const parent = { metadata: { name: 'a' } };
  const { children } = call(database, { parent });
  const { password, user } = children[0]?.['data'];
  assert.match(atob(password), /^[A-Za-z0-9]{24}$/);
  assert.equal(atob(user), 'admin');

  const secret = (/** @type {object} */ data) => ({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'db' }, data });
  const again = (/** @type {object} */ data) => call(database, { parent, children: [secret(data)] }).children[0]?.['data'];
  const other = { password: btoa('chosen by a person'), user };
  assert.deepEqual(again(other), other);
  assert.deepEqual(again({ user }), { password, user }, 'a key that is missing is generated');
  const greeting = secret({ text: Buffer.from('Grüße').toString('base64') });
  assert.equal(see((request) => request.generated('db', 'text'), { children: [greeting] }), 'Grüße');
});
