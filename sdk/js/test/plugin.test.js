// A plugin that uses every feature of the SDK.

import assert from 'node:assert/strict';
import test from 'node:test';

import {
  customResource,
  existing,
  failed,
  invalid,
  kinds,
  log,
  measure,
  plugin,
  Schedule,
  span,
  t,
  wait,
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
    selector: { labels: 'tier=web' },
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
    { kind: kinds.Ingress, optional: true },
    kinds.ConfigMap,
  ],
  related: [kinds.Secret, { kind: kinds.Namespace, optional: true }],
  config: t.object({ prefix: t.string({ default: '' }) }),
  finalizes: true,
  orderedDeletion: true,
  readyMeans: 'plugin',
  clock: true,
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
        return { ...wait(`Secret ${tls.secretName} is missing`, '5s'), requirements };
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
      requeueAt: request.now,
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
  const parent = existing({ kind: kinds.ConfigMap });
  const any = plugin({ name: 'any', version: '1.0.0', parent, children: [kinds.ConfigMap], related: [kinds.Secret], reconcile });
  return attempt(any, { parent: { metadata: { name: 'a' } }, ...options });
}

/**
 * A request as the host sends it.
 *
 * @param {Partial<import('@windlass/plugin').contract.Request>} fields
 * @returns {import('@windlass/plugin').contract.Request}
 */
const request = (fields) => ({
  phase: { tag: 'sync' },
  parentKind: kinds.ConfigMap,
  parent: encode({}),
  children: [],
  leftOut: [],
  related: [],
  http: [],
  kinds: [],
  capabilities: { features: [], closedNamespaces: [] },
  extensions: [],
  ...fields,
});

test('the descriptor has everything that was set', () => {
  const { parent, configSchema, ...rest } = site.reconciler.describe();
  assert(parent.tag === 'custom');
  assert.deepEqual(parent.val.selector, { labels: 'tier=web' });
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
        optional: false,
      },
      {
        kind: { apiVersion: 'v1', name: 'Pod' },
        update: { tag: 'rolling', val: { recreate: true, conditions: [] } },
        optional: false,
      },
      { kind: { apiVersion: 'batch/v1', name: 'Job' }, update: { tag: 'on-delete' }, optional: false },
      { kind: { apiVersion: 'networking.k8s.io/v1', name: 'Ingress' }, update: { tag: 'apply' }, optional: true },
      { kind: { apiVersion: 'v1', name: 'ConfigMap' }, update: { tag: 'apply' }, optional: false },
    ],
    related: [
      { kind: { apiVersion: 'v1', name: 'Secret' }, optional: false },
      { kind: { apiVersion: 'v1', name: 'Namespace' }, optional: true },
    ],
    endpoints: [],
    finalizes: true,
    orderedDeletion: true,
    readyMeans: 'plugin',
    clock: true,
    resync: 30_000n,
    metrics: [{ name: 'calls', unit: '', description: 'Calls.', metricType: 'counter', labels: ['host'] }],
    extensions: [],
  });
});

test('the response has everything that was set', () => {
  assert.deepEqual(call(site, { ...withSpec({ host: 'h' }), config: { prefix: 'a-' } }), {
    children: [{ apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'a-blog' } }],
    options: [{}],
    keep: [],
    status: {
      readyReplicas: 4,
      conditions: [{ type: 'Served', status: 'False', reason: 'Tls', message: 'web' }],
    },
    waiting: undefined,
    requeue: 1500,
    requeueAt: new Date('2026-01-01T00:00:00Z'),
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

  const waiting = call(site, { ...input, related: { tls: [] } });
  assert.deepEqual([waiting.keep, waiting.waiting, waiting.requeue], ['all', 'Secret cert is missing', 5000]);
  assert.deepEqual(waiting.requirements, first.requirements);

  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'cert' } };
  const served = call(site, { ...input, related: { tls: [secret] } });
  assert.deepEqual(served.requirements, first.requirements);
  assert.equal(served.status.certificate, 'cert');
});

test('a requirement selects by name, by labels or by a LabelSelector, in one namespace, several or all', () => {
  const require = (/** @type {any} */ fields) => {
    const requirements = [{ id: 'a', kind: kinds.Secret, ...fields }];
    const [first] = callOnConfigMap(() => ({ requirements })).response?.requirements ?? [];
    return /** @type {any[]} */ ([first?.namespaces, first?.select, first?.metadataOnly]);
  };
  const name = { tag: 'name', val: 'b' };
  assert.deepEqual(require({ name: 'b' }), [{ tag: 'of-parent' }, name, false]);
  assert.deepEqual(require({ name: 'b', namespace: 'web' }), [{ tag: 'named', val: ['web'] }, name, false]);
  assert.deepEqual(require({ name: 'b', namespaces: ['web', 'db'] }), [{ tag: 'named', val: ['web', 'db'] }, name, false]);
  const [all, labels, metadataOnly] = require({ labels: 'tier in (a,b)', namespaces: 'all', metadataOnly: true });
  assert.deepEqual([all, labels, metadataOnly], [{ tag: 'all' }, { tag: 'labels', val: 'tier in (a,b)' }, true]);
  const [, object] = require({ labelSelector: { matchLabels: { app: 'web' } } });
  assert.deepEqual([object.tag, decode(object.val)], ['label-selector', { matchLabels: { app: 'web' } }]);
});

test('the time is that of the request, and only for a plugin with a clock', () => {
  const { requeueAt } = call(site, { ...withSpec({ host: 'h' }), at: '2026-02-03T04:05:06.789Z' });
  assert.equal(requeueAt?.toISOString(), '2026-02-03T04:05:06.789Z');
  const { failure } = callOnConfigMap(({ now }) => ({ requeueAt: now }));
  assert.match(failure?.message ?? '', /request\.now needs `clock: true`/);
});

test('a response to a finalize call can be finalized, even if the spec is invalid', () => {
  const response = call(site, { ...withSpec({}), finalize: true });
  assert.equal(response.finalized, true);
  assert.deepEqual(response.events, [{ type: 'Normal', reason: 'Gone', message: 'all is cleaned up' }]);
  const hasty = call(site, { ...withSpec({}), finalize: true, namespaceTerminating: true });
  assert.equal(hasty.events[0]?.message, 'in haste');
});

test('a spec that cannot be read fails the call before the function runs, and the field is named', () => {
  const spec = t.object({ tls: t.optional(t.object({ secretName: t.string() })) });
  const parent = existing({ kind: kinds.ConfigMap, spec });
  let calls = 0;
  const counts = plugin({ name: 'counts', version: '1.0.0', parent, reconcile: () => ({ requeue: ++calls }) });
  const { failure } = attempt(counts, { parent: { metadata: { name: 'a' }, spec: { tls: { secretName: 7 } } } });
  assert.equal(failure?.type, 'invalid');
  assert.equal(failure?.message, 'spec.tls.secretName: 7 is not a string');
  assert.equal(calls, 0);
});

test('a clean-up reads a spec out of its bounds and without required fields, and fails at a value of another JSON type', () => {
  const { definition } = site;
  const cleans = plugin({ ...definition, reconcile: ({ spec }) => ({ waiting: `${spec.host} ${spec.replicas}`, finalized: true }) });
  const cleanUp = (/** @type {object} */ spec) => attempt(cleans, { ...withSpec(spec), finalize: true });
  assert.equal(cleanUp({ host: '', replicas: 12 }).response?.waiting, ' 12');
  assert.equal(cleanUp({}).response?.waiting, 'undefined 1');
  assert.equal(cleanUp({ host: 'h', replicas: 'many' }).failure?.message, 'spec.replicas: "many" is not a whole number');
});

test('a config that cannot be read fails the call and names the field', () => {
  const parent = encode({ metadata: { name: 'blog' }, spec: { host: 'h' } });
  const message = "the Plugin's spec.config.prefix: [] is not a string";
  const reconcile = () => site.reconciler.reconcile(request({ parent, config: encode({ prefix: [] }) }));
  assert.throws(reconcile, { tag: 'failed', val: message });
});

test('a parent without spec has the defaults of its fields', () => {
  const defaults = plugin({
    name: 'defaults',
    version: '1.0.0',
    parent: customResource({ group: 'a.b', version: 'v1', kind: 'A', spec: t.object({ n: t.integer({ default: 3 }) }) }),
    reconcile: ({ spec, parent }) => ({ requeue: spec.n, events: [{ type: 'Normal', reason: parent.kind ?? '', message: '' }] }),
  });
  const { requeue, events } = call(defaults, { parent: { metadata: { name: 'a' } } });
  assert.deepEqual([requeue, events[0]?.reason], [3, 'A']);
});

test('the status is undefined if another version wrote it', () => {
  const parent = { metadata: { name: 'blog' }, spec: { host: 'h' }, status: { observedGeneration: 1, readyReplicas: 'many' } };
  assert.equal(call(site, { parent }).status.readyReplicas, 0);
});

test('a status without a required field, as the host alone writes it, is undefined', () => {
  const { definition } = site;
  const sees = plugin({ ...definition, reconcile: (request) => ({ waiting: String(request.status?.readyReplicas ?? request.status) }) });
  const waiting = (/** @type {object} */ status) =>
    call(sees, { parent: { metadata: { name: 'blog' }, spec: { host: 'h' }, status } }).waiting;
  assert.equal(waiting({ observedGeneration: 1, readyReplicas: 2 }), '2');
  assert.equal(waiting({ observedGeneration: 1 }), 'undefined');
});

test('a live object is parsed when it is read', () => {
  const broken = {
    kind: { apiVersion: 'v1', name: 'Pod' },
    namespace: 'default',
    name: 'broken',
    object: new TextEncoder().encode('{'),
    readiness: /** @type {const} */ ({ tag: 'unknown' }),
  };
  const any = plugin({
    name: 'any',
    version: '1.0.0',
    parent: existing({ kind: kinds.ConfigMap }),
    reconcile: ({ children: [pod] }) => ({ events: [{ type: 'Normal', reason: pod?.name ?? '', message: pod?.namespace ?? '' }] }),
  });
  const response = any.reconciler.reconcile(request({ children: [broken] }));
  assert.deepEqual(response.events, [{ eventType: 'normal', reason: 'broken', message: 'default' }]);
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
});

test('a plugin that waits keeps everything, also in a clean-up', () => {
  for (const finalize of [false, true]) {
    const { response } = callOnConfigMap(() => wait('for a Secret', '1.5m'), { finalize });
    const { keep, waiting, requeue, children, status, finalized } = response ?? {};
    assert.deepEqual([keep, waiting, requeue], ['all', 'for a Secret', 90_000]);
    assert.deepEqual([children, status, finalized], [[], undefined, false]);
  }
});

test('a failure is returned as it was thrown', () => {
  const thrown = (/** @type {unknown} */ error) => {
    const { failure } = callOnConfigMap(() => {
      throw error;
    });
    return [failure?.type, failure?.message, failure?.field];
  };
  assert.deepEqual(thrown(invalid('spec.a', 'is odd')), ['invalid', 'spec.a: is odd', 'spec.a']);
  assert.deepEqual(thrown(invalid('', 'is odd')), ['invalid', 'is odd', undefined]);
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
  assert.equal(message({ finalised: true }), 'TypeError: finalised is not a field of a response');
  assert.equal(
    message({ children: [() => config({})] }),
    'TypeError: children[0] is not JSON: the value is a function, which JSON cannot express',
  );
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
  assert.equal(message({ requeueAt: new Date(Number.NaN) }), 'TypeError: requeueAt is Invalid Date instead of a time');
  assert.equal(message({ requeueAt: 5 }), 'TypeError: requeueAt is 5 instead of a time');
  assert.equal(message({ waiting: 5 }), 'TypeError: waiting is 5 instead of a string');
  assert.equal(message({ requeue: 'soon' }), `TypeError: "soon" is not a duration like 500, '30s', '5m' or '1h'`);
});

test('an incomplete definition is an error when the plugin is built', () => {
  const parent = existing({ kind: kinds.ConfigMap });
  const build = (/** @type {any} */ fields) => () => plugin({ name: 'a', version: '1.0.0', parent, reconcile: () => ({}), ...fields });
  assert.throws(build({ version: undefined }), { message: 'a plugin needs version' });
  assert.throws(build({ children: [kinds.Pod, undefined] }), { message: 'children[1] is not a kind' });
  assert.throws(build({ children: [{ update: 'apply' }] }), { message: 'children[0] is not a kind' });
  assert.throws(build({ parent: existing(/** @type {any} */ ({ kind: kinds.Pod, selector: 'a=b' })) }), {
    message: '0 is not a field of parent.selector',
  });
  assert.throws(build({ related: ['Secret'] }), { message: 'related[0] is not a kind' });
  assert.throws(build({ resync: '5 minutes' }), { message: `"5 minutes" is not a duration like 500, '30s', '5m' or '1h'` });
});

/** The interface `schedule` of a host on which each day has one time. */
const daily = {
  next: (/** @type {string} */ _schedule, /** @type {string} */ _zone, /** @type {bigint} */ after) => (after / DAY + 1n) * DAY,
  previous: () => {
    throw Object.assign(new Error('not a time zone'), { payload: { tag: 'time-zone', val: 'not a time zone' } });
  },
};
const DAY = 86_400_000n;

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
    daily,
  );
  assert.throws(() => reconciler.reconcile(request({})), {
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
      const schedule = new Schedule('@daily', { timeZone: 'Europe/Berlin', timeZoneField: 'spec.timeZone' });
      assert.deepEqual(schedule.next(new Date('2026-01-01T12:00:00Z')), new Date('2026-01-02T00:00:00Z'));
      schedule.previous(new Date(0));
      return {};
    },
  });
  log.error('nobody listens while the component is built');
  const { reconciler, admission } = component(chatty, host, daily);
  assert.equal(reconciler.describe().name, 'chatty');
  assert.equal(admission, undefined);
  const wrong = { tag: 'invalid', val: { field: 'spec.timeZone', message: 'not a time zone' } };
  assert.throws(() => reconciler.reconcile(request({})), wrong);
  assert.deepEqual(calls, [['warn', 'careful', [['count', '2']]]]);
});
