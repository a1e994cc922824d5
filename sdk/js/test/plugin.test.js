// A plugin that uses every feature of the SDK.

import assert from 'node:assert/strict';
import test from 'node:test';

import {
  customResource,
  existing,
  failed,
  forceOwnership,
  invalid,
  kind,
  kinds,
  log,
  measure,
  plugin,
  retain,
  retry,
  span,
  t,
} from '@windlass/plugin';
import { component } from '@windlass/plugin/component';
import { attempt, call } from '@windlass/plugin/testing';

import { decode, encode } from '../dist/json.js';

const site = plugin({
  name: 'site',
  version: '1.2.3',
  description: 'Sites',
  parent: customResource({
    group: 'example.com',
    version: 'v1',
    kind: 'Site',
    spec: t.object({
      host: t.string({ minLength: 1 }),
      replicas: t.integer({ minimum: 1, maximum: 9, default: 1 }),
      tls: t.optional(t.object({ secretName: t.string() })),
    }),
    status: t.object({ readyReplicas: t.integer(), certificate: t.optional(t.string()) }),
  }),
  children: [
    { kind: kinds.Deployment, update: { rolling: ['Available'] } },
    { kind: kinds.Pod, update: { rolling: [], recreate: true } },
    { kind: kinds.Job, update: 'on-delete' },
    kinds.ConfigMap,
  ],
  related: [kinds.Secret],
  config: t.object({ prefix: t.string({ default: '' }) }),
  finalizes: true,
  resync: '30s',
  metrics: [{ name: 'calls', type: 'counter', description: 'Calls.', labels: ['host'] }],

  reconcile(request) {
    const { prefix } = request.config;
    if (request.isFinalizing) {
      const message = request.isNamespaceTerminating ? 'in haste' : 'all is cleaned up';
      return { events: [{ type: 'Normal', reason: 'Gone', message }], finalized: true };
    }
    const { host, tls } = request.spec;
    log.info('called', { host, first: true });
    span.attribute('host', host);
    span.event('seen', { replicas: request.spec.replicas });
    measure('calls', 1, { host });
    const requirements = [];
    let certificate;
    if (tls) {
      requirements.push({ id: 'tls', kind: kinds.Secret, name: tls.secretName });
      const secrets = request.related('tls', kinds.Secret);
      if (secrets === undefined) {
        return { requirements };
      }
      const [secret] = secrets;
      if (secret === undefined) {
        throw retry(`Secret ${tls.secretName} is missing`, '5s');
      }
      certificate = secret.name;
    }
    return {
      children: [{ apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: `${prefix}${request.name}` } }],
      status: { readyReplicas: (request.status?.readyReplicas ?? -1) + 1, certificate },
      conditions: [
        { type: 'Served', status: certificate !== undefined, reason: 'Tls', message: request.namespace ?? '' },
      ],
      requeue: 1500,
      requirements,
    };
  },
});

/**
 * The input of a call.
 *
 * @param {object} spec
 */
const withSpec = (spec) => ({
  parent: { metadata: { name: 'blog', namespace: 'web' }, spec, status: { readyReplicas: 3 } },
});

/**
 * Calls a plugin on ConfigMaps.
 *
 * @param {import('@windlass/plugin').Definition<any, any, any>['reconcile']} reconcile
 * @param {Partial<import('@windlass/plugin/testing').CallOptions>} options
 */
function callOnConfigMap(reconcile, options = {}) {
  const { ConfigMap, Deployment, Pod } = kinds;
  const parent = existing({ kind: ConfigMap });
  const any = plugin({ name: 'any', version: '1.0.0', parent, children: [ConfigMap, Deployment, Pod], reconcile });
  return attempt(any, { parent: { metadata: { name: 'a' } }, ...options });
}

test('the descriptor has everything that was set', () => {
  const { parent, configSchema, ...rest } = site.reconciler.describe();
  assert.equal(parent.tag, 'custom');
  assert.deepEqual(decode(configSchema ?? new Uint8Array()), {
    type: 'object',
    properties: { prefix: { type: 'string', default: '' } },
  });
  assert.deepEqual(rest, {
    name: 'site',
    version: '1.2.3',
    description: 'Sites',
    children: [
      {
        kind: { apiVersion: 'apps/v1', name: 'Deployment' },
        update: { tag: 'rolling', val: { recreate: false, conditions: ['Available'] } },
      },
      { kind: { apiVersion: 'v1', name: 'Pod' }, update: { tag: 'rolling', val: { recreate: true, conditions: [] } } },
      { kind: { apiVersion: 'batch/v1', name: 'Job' }, update: { tag: 'on-delete' } },
      { kind: { apiVersion: 'v1', name: 'ConfigMap' }, update: { tag: 'apply' } },
    ],
    related: [{ apiVersion: 'v1', name: 'Secret' }],
    finalizes: true,
    resync: 30_000n,
    metrics: [{ name: 'calls', unit: '', description: 'Calls.', metricType: 'counter', labels: ['host'] }],
    extensions: [],
  });
});

test('the response has everything that was set', () => {
  assert.deepEqual(call(site, { ...withSpec({ host: 'h' }), config: { prefix: 'a-' } }), {
    children: [{ apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'a-blog' } }],
    status: {
      readyReplicas: 4,
      conditions: [{ type: 'Served', status: 'False', reason: 'Tls', message: 'web' }],
    },
    requeue: 1500,
    events: [],
    requirements: [],
    finalized: false,
    logs: [{ level: 'info', message: 'called', fields: { host: 'h', first: 'true' } }],
    measurements: [{ metric: 'calls', value: 1, labels: { host: 'h' } }],
    spanAttributes: { host: 'h' },
    spanEvents: [{ name: 'seen', attributes: { replicas: '1' } }],
  });
});

test('a requirement is returned before and after it is served', () => {
  const input = withSpec({ host: 'h', tls: { secretName: 'cert' } });
  const first = call(site, input);
  assert.deepEqual([first.children, first.status, first.requirements.length], [[], undefined, 1]);
  assert.deepEqual(first.requirements[0]?.select, { tag: 'name', val: 'cert' });

  const { failure } = attempt(site, { ...input, related: { tls: [] } });
  assert.deepEqual([failure?.type, failure?.message, failure?.after], ['retry', 'Secret cert is missing', 5000]);

  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'cert' } };
  const served = call(site, { ...input, related: { tls: [secret] } });
  assert.deepEqual(served.requirements, first.requirements);
  assert.equal(served.status.certificate, 'cert');
});

test('a requirement selects by name or by labels, in a namespace', () => {
  const Certificate = kind('cert-manager.io/v1', 'Certificate');
  const certificates = plugin({
    name: 'certificates',
    version: '1.0.0',
    parent: existing({ kind: kinds.Namespace }),
    related: [Certificate],
    reconcile: () => ({ requirements: [{ id: 'all', kind: Certificate, namespace: 'web', labels: 'tier in (a,b)' }] }),
  });
  assert.deepEqual(call(certificates, { parent: {} }).requirements, [
    {
      id: 'all',
      kind: { apiVersion: 'cert-manager.io/v1', name: 'Certificate' },
      namespace: 'web',
      select: { tag: 'labels', val: 'tier in (a,b)' },
    },
  ]);
});

test('a response to a finalize call can be finalized, even if the spec is invalid', () => {
  const response = call(site, { ...withSpec({}), finalize: true });
  assert.equal(response.finalized, true);
  assert.deepEqual(response.events, [{ type: 'Normal', reason: 'Gone', message: 'all is cleaned up' }]);
  const hasty = call(site, { ...withSpec({}), finalize: true, namespaceTerminating: true });
  assert.equal(hasty.events[0]?.message, 'in haste');
});

test('a failure for an invalid field contains its path', () => {
  const failure = (/** @type {object} */ spec) => attempt(site, withSpec(spec)).failure;
  assert.equal(failure({})?.type, 'invalid');
  assert.equal(failure({})?.message, 'spec.host: is required');
  assert.equal(failure({ host: 'h', tls: { secretName: 7 } })?.message, 'spec.tls.secretName: 7 is not a string');
  assert.equal(failure({ host: 'h', replicas: 10 })?.message, 'spec.replicas: 10 is not between 1 and 9');
});

test('a wrong config fails the call and names the field', () => {
  const { failure } = attempt(site, { ...withSpec({ host: 'h' }), config: { prefix: [] } });
  assert.equal(failure?.type, 'failed');
  assert.equal(failure?.message, "the Plugin's spec.config.prefix: [] is not a string");
});

test('a parent without spec has the defaults of its fields', () => {
  const defaults = plugin({
    name: 'defaults',
    version: '1.0.0',
    parent: customResource({ group: 'a.b', version: 'v1', kind: 'A', spec: t.object({ n: t.integer({ default: 3 }) }) }),
    reconcile: ({ spec, parent }) => ({ requeue: spec.n, events: [{ type: 'Normal', reason: parent.kind ?? '', message: '' }] }),
  });
  const { requeue, events } = call(defaults, { parent: {} });
  assert.deepEqual([requeue, events[0]?.reason], [3, 'A']);
});

test('the status is undefined if another version wrote it', () => {
  const parent = { metadata: { name: 'blog' }, spec: { host: 'h' }, status: { observedGeneration: 1, readyReplicas: 'many' } };
  assert.equal(call(site, { parent }).status.readyReplicas, 0);
});

test('metadata has all its fields', () => {
  const metadata = { name: 'a', uid: 'u', generation: 3, labels: { b: 'c' }, deletionTimestamp: '2026-01-01T00:00:00Z' };
  const { failure } = callOnConfigMap(
    (request) => {
      assert.deepEqual(request.metadata, { ...metadata, annotations: {} });
      assert.deepEqual([request.name, request.namespace, request.uid], ['a', undefined, 'u']);
      assert.equal(request.parent['data'].k, 'v');
      assert.equal(request.parent.kind, 'ConfigMap');
      return {};
    },
    { parent: { metadata, data: { k: 'v' } } },
  );
  assert.equal(failure, undefined);
});

test('a child is found by kind, namespace and name, in the order of the host', () => {
  const child = (/** @type {string} */ kind, /** @type {string | undefined} */ namespace, name = 'c') => ({
    apiVersion: 'v1',
    kind,
    metadata: { name, namespace },
    data: { k: `${namespace}/${name}` },
  });
  const { failure } = callOnConfigMap(
    (request) => {
      const key = (/** @type {any} */ child) => child?.object.data.k;
      assert.deepEqual(request.children.map(key), ['a/c', 'b/b', 'b/c', 'b/a']);
      assert.deepEqual(request.childrenOf(kinds.ConfigMap).map(key), ['a/c', 'b/b', 'b/c']);
      assert.equal(key(request.child(kinds.ConfigMap, 'c')), 'b/c');
      assert.equal(key(request.child(kinds.ConfigMap, 'c', 'a')), 'a/c');
      assert.equal(request.child(kinds.ConfigMap, 'd'), undefined);
      assert.equal(request.child(kind('v2', 'ConfigMap'), 'c'), undefined);
      return {};
    },
    {
      parent: { metadata: { name: 'p', namespace: 'b' } },
      children: [child('Pod', 'b', 'a'), child('ConfigMap', 'b'), child('ConfigMap', 'a'), child('ConfigMap', 'b', 'b')],
    },
  );
  assert.equal(failure, undefined);
});

test('a live object is parsed when it is read', () => {
  const raw = {
    kind: { apiVersion: 'v1', name: 'Pod' },
    namespace: 'default',
    name: 'broken',
    object: new TextEncoder().encode('{'),
  };
  const any = plugin({
    name: 'any',
    version: '1.0.0',
    parent: existing({ kind: kinds.ConfigMap }),
    reconcile: ({ children: [pod] }) => ({ events: [{ type: 'Normal', reason: pod?.name ?? '', message: pod?.namespace ?? '' }] }),
  });
  const response = any.reconciler.reconcile({
    phase: 'sync',
    parent: encode({ metadata: {} }),
    children: [raw],
    related: [],
    extensions: [],
  });
  assert.deepEqual(response.events, [{ eventType: 'normal', reason: 'broken', message: 'default' }]);
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
  const { failure } = callOnConfigMap(
    (request) => {
      const [deleted, fresh] = request.childrenOf(kinds.Pod);
      assert.equal(deleted?.isBeingDeleted, true);
      assert.equal(fresh?.isBeingDeleted, false);
      assert.equal(deleted?.isConditionTrue('Ready'), true);
      assert.equal(deleted?.isConditionTrue('Scheduled'), false);
      assert.equal(deleted?.condition('Scheduled')?.reason, 'NoNode');
      assert.equal(fresh?.condition('Ready'), undefined);
      return {};
    },
    { children: [pod, { ...pod, metadata: { name: 'b' }, status: {} }] },
  );
  assert.equal(failure, undefined);
});

test('a spec is applied when the host has observed it and is not stalled', () => {
  const isApplied = (/** @type {any} */ status) => {
    const parent = { metadata: { name: 'a', generation: 2 }, status };
    return callOnConfigMap((request) => ({ finalized: request.isSpecApplied }), { parent }).response?.finalized;
  };
  const stalled = (/** @type {string} */ status) => ({ observedGeneration: 2, conditions: [{ type: 'Stalled', status }] });
  assert.equal(isApplied({ observedGeneration: 2 }), true);
  assert.equal(isApplied(stalled('False')), true);
  assert.equal(isApplied(stalled('True')), false);
  assert.equal(isApplied({ observedGeneration: 1 }), false);
  assert.equal(isApplied(undefined), false);
});

test('options of a child are annotations, and the child itself does not change', () => {
  const child = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a', annotations: { b: 'c' } } };
  const optioned = retain(forceOwnership(child));
  const { response } = callOnConfigMap(() => ({ children: [{ ...optioned, metadata: { ...optioned.metadata, name: 'b' } }, child] }));
  assert.deepEqual(
    response?.children.map(({ metadata }) => /** @type {any} */ (metadata).annotations),
    [{ b: 'c', 'windlass.dev/take-over': 'true', 'windlass.dev/retain': 'true' }, { b: 'c' }],
  );
});

test('children that are not there are skipped, and so are fields without value', () => {
  const child = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a', labels: undefined }, data: null };
  const { response } = callOnConfigMap(() => ({ children: [undefined, null, false, '', child] }));
  assert.deepEqual(response?.children, [{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' } }]);
});

test('conditions without a status are written', () => {
  const condition = { type: 'Ready', status: /** @type {const} */ ('Unknown'), reason: 'New', message: '' };
  assert.deepEqual(callOnConfigMap(() => ({ conditions: [condition] })).response?.status, { conditions: [condition] });
});

test('a status of null leaves the status as it is', () => {
  const condition = { type: 'Synced', status: true, reason: 'New', message: '' };
  const status = (/** @type {object} */ fields) =>
    callOnConfigMap(() => ({ status: /** @type {any} */ (null), ...fields })).response?.status;
  assert.equal(status({}), undefined);
  assert.deepEqual(status({ conditions: [condition] }), { conditions: [{ ...condition, status: 'True' }] });
});

test('a duration that has passed is 0', () => {
  const requeue = (/** @type {any} */ duration) => callOnConfigMap(() => ({ requeue: duration })).response?.requeue;
  assert.deepEqual([-5, '-30s', 0.000_000_1, 1.5, '1.5s'].map(requeue), [0, 0, 0, 2, 1500]);
  const { failure } = callOnConfigMap(() => {
    throw retry('waits', -1);
  });
  assert.deepEqual([failure?.type, failure?.after], ['retry', 0]);
});

test('a failure is returned as it was thrown', () => {
  const thrown = (/** @type {unknown} */ error) => {
    const { failure } = callOnConfigMap(() => {
      throw error;
    });
    return [failure?.type, failure?.message, failure?.after];
  };
  assert.deepEqual(thrown(invalid('spec.a', 'is odd')), ['invalid', 'spec.a: is odd', undefined]);
  assert.deepEqual(thrown(invalid('', 'is odd')), ['invalid', 'is odd', undefined]);
  assert.deepEqual(thrown(retry('waits', '1.5m')), ['retry', 'waits', 90_000]);
  assert.deepEqual(thrown(failed('broken')), ['failed', 'broken', undefined]);
  assert.deepEqual(thrown('text'), ['failed', 'the plugin threw text', undefined]);
});

test('an unexpected error fails the call with its message, and its stack is logged', () => {
  /** @returns {never} */
  function bug() {
    throw new RangeError('too many\nPods');
  }
  const { failure, calls } = /** @type {any} */ (callOnConfigMap(bug));
  assert.deepEqual([failure.type, failure.message], ['failed', 'RangeError: too many\nPods']);
  assert.equal(calls.logs[0].level, 'error');
  assert.match(calls.logs[0].message, /^RangeError: too many\nPods\n +at (Object\.)?bug .*plugin\.test\.js/);
  assert.equal(failure.cause, calls.logs[0].message);
});

test('a response that cannot be one is a failure that states why', () => {
  const message = (/** @type {any} */ response) => callOnConfigMap(() => response).failure?.message;
  const config = (/** @type {object} */ fields) => ({ children: [{ apiVersion: 'v1', kind: 'ConfigMap', ...fields }] });
  assert.equal(message(undefined), 'TypeError: reconcile returned undefined instead of a response');
  assert.match(message(Promise.resolve({})) ?? '', /must not be async/);
  assert.equal(message({ finalised: true }), 'TypeError: a response has no field finalised');
  assert.equal(message(config({})), 'TypeError: children[0] has no metadata.name');
  assert.equal(
    message(config({ metadata: { name: 'a' }, data: { ratio: Number.NaN } })),
    'TypeError: children[0] (ConfigMap a) is not JSON: ratio is NaN, which JSON cannot express',
  );
  assert.equal(message({ events: [{ type: 'Normal', reason: 'A' }] }), 'TypeError: events[0].message is undefined instead of a string');
  const requirement = { id: 'a', kind: kinds.Secret };
  assert.equal(message({ requirements: [requirement] }), 'TypeError: requirements[0].name is undefined instead of a string');
  assert.equal(message({ requirements: [{ id: 'a', name: 'b' }] }), 'TypeError: requirements[0].kind is not a kind');
  assert.equal(message({ status: 'Running' }), 'TypeError: the status is "Running" instead of an object');
  assert.equal(message({ status: [{ a: 1n }] }), 'TypeError: the status is [{"a":1}] instead of an object');
  assert.match(message({ requeue: Number.NaN }) ?? '', /is not a duration/);
  assert.equal(message({ requeue: 'soon' }), `TypeError: "soon" is not a duration like 500, '30s', '5m' or '1h'`);
});

test('an incomplete definition is an error when the plugin is built', () => {
  const parent = existing({ kind: kinds.ConfigMap });
  const build = (/** @type {any} */ fields) => () => plugin({ name: 'a', version: '1.0.0', parent, reconcile: () => ({}), ...fields });
  assert.throws(build({ version: undefined }), { message: 'a plugin needs version' });
  assert.throws(build({ children: [kinds.Pod, undefined] }), { message: 'children[1] is not a kind' });
  assert.throws(build({ children: [{ update: 'apply' }] }), { message: 'children[0].kind is not a kind' });
  assert.throws(build({ related: ['Secret'] }), { message: 'related[0] is not a kind' });
  assert.throws(build({ resync: '5 minutes' }), { message: `"5 minutes" is not a duration like 500, '30s', '5m' or '1h'` });
});

test('fetch in a component throws an error that says why', (context) => {
  const before = globalThis.fetch;
  context.after(() => void (globalThis.fetch = before));
  const { reconciler } = component(
    plugin({
      name: 'fetches',
      version: '0.1.0',
      parent: existing({ kind: kinds.ConfigMap }),
      reconcile() {
        void fetch('http://example.com/');
        return {};
      },
    }),
    { log() {}, spanAttribute() {}, spanEvent() {}, measure() {} },
  );
  assert.throws(() => reconciler.reconcile({ phase: 'sync', parent: encode({}), children: [], related: [], extensions: [] }), {
    tag: 'failed',
    val: 'Error: fetch: a plugin has no network and no files',
  });
});

test('a component calls the functions of the host that it imports', () => {
  /** @type {unknown[]} */
  const calls = [];
  const host = {
    log: (/** @type {unknown[]} */ ...line) => calls.push(line),
    spanAttribute() {},
    spanEvent() {},
    measure() {},
  };
  const chatty = plugin({
    name: 'chatty',
    version: '1.0.0',
    parent: existing({ kind: kinds.ConfigMap }),
    reconcile() {
      log.warn('careful', { count: 2 });
      return {};
    },
  });
  log.error('nobody listens while the component is built');
  const { reconciler, admission } = component(chatty, host);
  assert.equal(reconciler.describe().name, 'chatty');
  assert.equal(admission, undefined);
  reconciler.reconcile({ phase: 'sync', parent: encode({}), children: [], related: [], extensions: [] });
  assert.deepEqual(calls, [['warn', 'careful', [['count', '2']]]]);
});
