import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';

import { childWith, customResource, existing, kind, kinds, log, measure, plugin, t } from '@windlass/plugin';
import { attempt, call, checkCrd, goldenCases, Refused } from '@windlass/plugin/testing';

import { parse, stringify } from '../dist/json.js';

const parent = customResource({
  group: 'example.com',
  version: 'v1',
  kind: 'Dice',
  spec: t.object({ count: t.integer({ minimum: 0, maximum: 6 }) }),
  status: t.object({ at: t.string() }),
});

/** The definition of a plugin that uses clocks and random numbers. */
const definition = {
  name: 'dice',
  version: '1.0.0',
  parent,
  children: [kinds.ConfigMap],
  metrics: [{ name: 'thrown', type: /** @type {const} */ ('counter'), description: 'Dice.', labels: ['parent'] }],
  reconcile(/** @type {import('@windlass/plugin').Request<{ count: number }>} */ request) {
    log.info(`throws ${request.spec.count}`);
    measure('thrown', request.spec.count, { parent: request.name });
    const data = Array.from({ length: request.spec.count }, () => [crypto.randomUUID(), String(Math.random())]);
    return {
      children: [{ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'dice' }, data: Object.fromEntries(data) }],
      status: { at: new Date().toISOString() },
    };
  },
};
const dice = plugin(definition);

/**
 * Runs a function with a folder of these files.
 *
 * @param {Record<string, string>} files
 * @param {(folder: string) => void} run
 */
function withFolder(files, run) {
  const folder = mkdtempSync(join(tmpdir(), 'windlass-'));
  try {
    for (const [name, text] of Object.entries(files)) {
      writeFileSync(join(folder, name), text);
    }
    run(folder);
  } finally {
    rmSync(folder, { recursive: true });
    delete process.env['UPDATE_EXPECT'];
  }
}

const REQUEST = "description: One\nparent: {metadata: {name: d}, spec: {count: 1}}\nat: '2026-02-03T04:05:06Z'\n";
const INVALID = 'description: Many\nparent: {metadata: {name: d}, spec: {count: 7}}\n';

test('clocks and random numbers are the same in every call, and are the real ones afterwards', () => {
  const parent = { metadata: { name: 'd' }, spec: { count: 2 } };
  const options = { parent, at: '2026-02-03T04:05:06Z' };
  const response = call(dice, options);
  assert.deepEqual(call(dice, options), response);
  assert.equal(response.status.at, '2026-02-03T04:05:06.000Z');
  assert.equal(call(dice, { parent }).status.at, '2026-01-01T00:00:00.000Z');
  assert.equal(new Set(Object.keys(response.children[0]?.['data'])).size, 2);
  assert.notEqual(crypto.randomUUID(), crypto.randomUUID());
  assert(Date.now() > Date.parse('2026-01-02T00:00:00Z'));
});

/**
 * The error of a call of this plugin.
 *
 * @param {import('@windlass/plugin').Plugin} plugin
 * @param {Partial<import('@windlass/plugin/testing').CallOptions>} options
 */
function errorOf(plugin, options = {}) {
  try {
    attempt(plugin, { parent: { metadata: { name: 'd' }, spec: { count: 1 } }, ...options });
  } catch (error) {
    return /** @type {Error} */ (error);
  }
  return undefined;
}

test('what the host refuses is an error with the sentence of the host, and no failure of the plugin', () => {
  const refused = (/** @type {object} */ fields, options = {}) => {
    const error = errorOf(plugin({ ...definition, ...fields }), options);
    assert(error instanceof Refused, error?.stack ?? 'no error');
    return error.message;
  };
  const undeclared = 'child "dice" is of kind ConfigMap.v1, which the component\'s descriptor does not declare';
  assert.equal(refused({ children: [kinds.Pod] }), `${undeclared}: its author must add it to the descriptor's \`children\``);
  const named = (/** @type {string[]} */ ...names) => ({
    reconcile: () => ({ children: names.map((name) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name } })) }),
  });
  assert.equal(refused(named('a', 'b', 'a')), 'ConfigMap default/a is twice in the response');
  const requirements = [{ id: 'a', kind: kinds.Secret, name: 'b' }];
  const requires = { reconcile: () => ({ requirements }) };
  assert.match(refused(requires), /"a".*Secret/);
  assert.equal(errorOf(plugin({ ...definition, ...requires, related: [kinds.Secret] })), undefined);
  const selects = (/** @type {object} */ labelSelector) => ({
    related: [kinds.Secret],
    reconcile: () => ({ requirements: [{ id: 'a', kind: kinds.Secret, labelSelector }] }),
  });
  assert.match(refused(selects({ matchExpressions: [{ key: 'a', operator: 'Near', values: ['b'] }] })), /Near/);
  assert.match(refused({ metrics: [{ ...definition.metrics[0], name: 'no spaces' }] }), /no spaces/);
  assert.match(refused({}, { config: { image: 'a' } }), /config/);
  const config = t.object({ image: t.string({ minLength: 2 }) });
  assert.match(refused({ config }, { config: { image: 'a' } }), /spec\.config\.image: 1 character/);
});

const REFUSED = new URL('../../../host/conformance/refused.json', import.meta.url);

/**
 * A plugin that returns this response, whatever its request is.
 *
 * @param {{ children: { object: any, options?: any }[], keep?: any[], requirements?: any[] }} response
 */
function echo({ children, keep = [], requirements = [] }) {
  const reference = (/** @type {any} */ { apiVersion, kind: name, ...rest }) => ({ ...rest, kind: kind(apiVersion, name) });
  const options = ({ replaces, ...rest } = /** @type {any} */ ({})) => ({ ...rest, ...(replaces && { replaces: reference(replaces) }) });
  return plugin({
    name: 'echo',
    version: '0.1.0',
    parent: customResource({ group: 'example.com', version: 'v1', kind: 'Echo', spec: t.object({}) }),
    children: [kinds.ConfigMap, kinds.Secret],
    related: [kinds.ConfigMap],
    reconcile: () => ({
      children: children.map((child) => childWith(child.object, options(child.options))),
      keep: keep.map(reference),
      requirements: requirements.map(reference),
    }),
  });
}

test('a response is refused as by the host in every SDK', async (context) => {
  /** @type {({ description: string, refused: string } & Parameters<typeof echo>[0])[]} */
  const cases = JSON.parse(readFileSync(REFUSED, 'utf8'));
  assert(cases.length > 0);
  const parent = { metadata: { namespace: 'shop', name: 'web' }, spec: {} };
  for (const { description, refused, ...response } of cases) {
    await context.test(description, () => {
      assert.throws(() => call(echo(response), { parent }), { name: 'Refused', message: refused });
    });
  }
});

test('a parent that its schema does not allow is invalid with the sentence of the host, and the plugin is not called', () => {
  let calls = 0;
  const spec = t.object({ count: t.integer({ maximum: 6 }), name: t.string({ pattern: '^[a-z]+$' }) });
  const counts = plugin({
    name: 'counts',
    version: '1.0.0',
    parent: customResource({ group: 'example.com', version: 'v1', kind: 'Count', spec }),
    finalizes: true,
    reconcile: () => ({ requeue: ++calls, finalized: true }),
  });
  const parent = { metadata: { name: 'a' }, spec: { count: 7 } };
  const { failure } = attempt(counts, { parent });
  assert.equal(failure?.type, 'invalid');
  assert.equal(failure?.field, 'spec.name');
  assert.equal(failure?.message, 'spec.name: required, and missing; spec.count: 7 is more than the maximum 6');
  assert.throws(() => call(counts, { parent }), { message: failure?.message });
  assert.equal(calls, 0);
  assert.equal(call(counts, { parent, finalize: true }).finalized, true, 'a clean-up has any spec');
});

test('a parent has the defaults of its schema, and exact numbers beside them', () => {
  const spec = t.object({
    big: t.bigint(),
    tags: t.array(t.object({ name: t.string(), size: t.integer({ default: 3 }) })),
    mode: t.string({ default: 'slow' }),
  });
  const shows = plugin({
    name: 'shows',
    version: '1.0.0',
    parent: customResource({ group: 'example.com', version: 'v1', kind: 'Show', spec }),
    finalizes: true,
    reconcile: ({ parent }) => ({ waiting: stringify(parent['spec']), finalized: true }),
  });
  const parent = { metadata: { name: 'a' }, spec: { big: 9007199254740993n, tags: [{ name: 'b', size: null }] } };
  for (const finalize of [false, true]) {
    const { waiting } = call(shows, { parent, finalize });
    assert.deepEqual(parse(waiting ?? ''), { big: 9007199254740993n, tags: [{ name: 'b', size: 3 }], mode: 'slow' });
  }
});

test('a child reaches the host byte for byte', () => {
  const object = new TextEncoder().encode('{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"b"}}');
  const reconcile = (/** @type {any} */ request) => {
    const response = dice.reconciler.reconcile(request);
    return { ...response, children: response.children.map((child) => ({ ...child, object })) };
  };
  const twice = { ...dice, reconciler: { ...dice.reconciler, reconcile } };
  const { message } = errorOf(twice) ?? {};
  assert.equal(message, 'child 0 is not valid JSON: the key "name" stands twice in the object that ends at byte 72');
});

test('a test without the program windlass fails, and says how to get it', (context) => {
  const before = process.env['WINDLASS'];
  context.after(() => void (before === undefined ? delete process.env['WINDLASS'] : (process.env['WINDLASS'] = before)));
  process.env['WINDLASS'] = join(tmpdir(), 'no-windlass');
  const { message = '' } = errorOf(dice) ?? {};
  assert.match(message, /no-windlass: install it with `cargo install --locked --path host\/cli` in the repository of Windlass, or set the environment variable WINDLASS/);
});

test('what the API server or the host would drop is an error', () => {
  const error = (/** @type {object} */ fields) => errorOf(plugin({ ...definition, ...fields }))?.message;
  assert.equal(error({ metrics: [] }), 'metric thrown: the plugin does not declare it');
  const metric = { name: 'thrown', type: 'counter', description: 'Dice.' };
  assert.equal(error({ metrics: [metric] }), 'metric thrown, label parent: the plugin does not declare it');
  assert.equal(error({ reconcile: () => ({ status: { other: 1 } }) }), 'status.at: is required');
  assert.equal(error({ reconcile: () => ({ status: { at: 7 } }) }), 'status.at: 7 is not a string');
  const unknown = { at: '', other: [1] };
  assert.match(error({ reconcile: () => ({ status: unknown }) }) ?? '', /^status\.other: the type of the status has no such/);
});

test('UPDATE_EXPECT writes the expected responses, with which later calls are compared', () => {
  withFolder({ 'one.yaml': REQUEST, 'many.yaml': INVALID }, (folder) => {
    const [many, one] = goldenCases(dice, folder);
    assert.deepEqual([many?.name, one?.name], ['many', 'one']);
    assert.throws(() => one?.check(), /one\.answer\.yaml is missing: UPDATE_EXPECT=1 writes it/);

    process.env['UPDATE_EXPECT'] = '1';
    many?.check();
    one?.check();
    delete process.env['UPDATE_EXPECT'];
    many?.check();
    one?.check();

    const answer = join(folder, 'many.answer.yaml');
    assert.equal(readFileSync(answer, 'utf8'), 'invalid: "spec.count: 7 is more than the maximum 6"\n');
    writeFileSync(answer, 'invalid: "spec.count: worded otherwise"\n');
    assert.throws(() => many?.check(), assert.AssertionError);
    const [byField] = goldenCases(dice, folder, { invalid: 'field' });
    byField?.check();
    process.env['UPDATE_EXPECT'] = '1';
    byField?.check();
    assert.match(readFileSync(answer, 'utf8'), /worded otherwise/, 'the words of another language stay');
  });
});

test('the expected response has what the plugin called, without empty fields and in order', () => {
  withFolder({ 'one.yaml': REQUEST }, (folder) => {
    process.env['UPDATE_EXPECT'] = '1';
    goldenCases(dice, folder)[0]?.check();
    const text = readFileSync(join(folder, 'one.answer.yaml'), 'utf8').replace(/^    .*-.*: .*$/m, '    uuid: number');
    assert.equal(
      text,
      `children:
- apiVersion: v1
  data:
    uuid: number
  kind: ConfigMap
  metadata:
    name: dice
logs:
- throws 1
measurements:
- labels:
    parent: d
  metric: thrown
  value: 1
status:
  at: 2026-02-03T04:05:06.000Z
`,
    );
  });
});

test('a case has what a request of the host has, and its response all that the host would do', () => {
  const { Ingress, Pod } = kinds;
  const rules = [Ingress, Pod].map((kind) => ({ kind, optional: true }));
  const all = plugin({
    name: 'all',
    version: '1.0.0',
    parent: existing({ kind: kinds.Namespace }),
    clock: true,
    children: [kinds.ConfigMap, ...rules],
    related: rules,
    reconcile: (request) => ({
      children: [
        childWith({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' } }, { update: 'on-delete' }),
        { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'c' } },
        childWith(
          { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'b' } },
          { stage: 1, update: { rolling: [] }, replaces: { kind: kinds.ConfigMap, name: 'old' } },
        ),
      ],
      keep: [{ kind: Pod, namespace: 'web', name: 'c' }],
      waiting: `${request.cause} ${request.isNamespaceTerminating} ${rules.map(({ kind }) => request.hasKind(kind))}`,
      requeueAt: request.now,
      requirements: [
        { id: 'one', kind: Pod, namespace: 'web', name: 'd' },
        { id: 'several', kind: Pod, namespaces: request.closedNamespaces, labels: 'a=b' },
        {
          id: 'all',
          kind: Pod,
          namespaces: 'all',
          labelSelector: {
            matchLabels: { tier: '', app: 'web' },
            matchExpressions: [
              { key: 'zone', operator: 'In', values: ['a', 'b'] },
              { key: 'old', operator: 'NotIn', values: ['yes'] },
              { key: 'kept', operator: 'Exists' },
              { key: 'gone', operator: 'DoesNotExist' },
            ],
          },
        },
      ],
    }),
  });
  const request = `description: All
parent: {metadata: {name: web}}
finalize: true
cause: leftSelector
namespaceTerminating: true
kinds: [{apiVersion: networking.k8s.io/v1, kind: Ingress}]
closedNamespaces: [windlass, kube-system]
at: 2026-02-03T04:05:06Z
`;
  const answer = `
children:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}
options:
- {update: onDelete}
- {}
- {stage: 1, update: {rolling: {recreate: false, until: ready}}, replaces: {apiVersion: v1, kind: ConfigMap, name: old}}
keep:
  these: [{apiVersion: v1, kind: Pod, namespace: web, name: c}]
waiting: left-selector true true,false
requeueAtMs: 1770091506000
requirements:
- {id: one, apiVersion: v1, kind: Pod, namespace: web, name: d}
- {id: several, apiVersion: v1, kind: Pod, namespaces: [windlass, kube-system], labels: a=b}
- {id: all, apiVersion: v1, kind: Pod, namespaces: all, labels: 'app in (web),tier in (),zone in (a,b),old notin (yes),kept,!gone'}
`;
  withFolder({ 'all.yaml': request, 'all.answer.yaml': answer }, (folder) => goldenCases(all, folder)[0]?.check());
});

test('a plugin with another response in its second call is found', () => {
  let count = 0;
  const counting = plugin({ ...definition, reconcile: () => ({ status: { at: String(count++) } }) });
  withFolder({ 'one.yaml': REQUEST, 'one.answer.yaml': 'status: {at: "0"}\n' }, (folder) => {
    assert.throws(() => goldenCases(counting, folder)[0]?.check(), /the same request has two responses/);
  });
});

test('a folder without cases, a response without request, and unknown and missing fields are errors', () => {
  withFolder({}, (folder) => assert.throws(() => goldenCases(dice, folder), /has no cases/));
  withFolder({ 'one.yaml': REQUEST, 'two.answer.yaml': '{}' }, (folder) =>
    assert.throws(() => goldenCases(dice, folder), /two\.answer\.yaml has no request/),
  );
  withFolder({ 'one.yaml': `${REQUEST}child: true\n` }, (folder) =>
    assert.throws(() => goldenCases(dice, folder), /one\.yaml has the unknown field child/),
  );
  for (const [field, text] of [['description', 'parent: {}\n'], ['parent', 'description: One\n']]) {
    withFolder({ 'one.yaml': text ?? '' }, (folder) =>
      assert.throws(() => goldenCases(dice, folder), new RegExp(`one\\.yaml has no ${field}`)),
    );
  }
});

test('large numbers of a case are exact', () => {
  const big = customResource({ group: 'a.b', version: 'v1', kind: 'Big', spec: t.object({ n: t.bigint(), small: t.integer() }) });
  const plus = plugin({
    name: 'plus',
    version: '1.0.0',
    parent: big,
    reconcile: ({ spec }) => ({ events: [{ type: 'Normal', reason: 'N', message: `${spec.n + 1n} ${spec.small}` }] }),
  });
  const request = 'description: Big\nparent: {metadata: {name: a}, spec: {n: 9223372036854775806, small: 7}}\n';
  const answer = "events: [{type: Normal, reason: N, message: '9223372036854775807 7'}]\n";
  withFolder({ 'a.yaml': request, 'a.answer.yaml': answer }, (folder) => goldenCases(plus, folder)[0]?.check());
});

test('the file of the CRD is compared and written', () => {
  withFolder({}, (folder) => {
    const file = join(folder, 'crd.json');
    assert.throws(() => checkCrd(dice, file), /crd\.json is missing: UPDATE_EXPECT=1 writes it/);
    process.env['UPDATE_EXPECT'] = '1';
    checkCrd(dice, file);
    delete process.env['UPDATE_EXPECT'];
    checkCrd(dice, file);
    assert.match(readFileSync(file, 'utf8'), /^\{\n "apiVersion": "apiextensions.k8s.io\/v1",\n "kind"/);
    writeFileSync(file, '{}');
    assert.throws(() => checkCrd(dice, file), assert.AssertionError);
  });
});
