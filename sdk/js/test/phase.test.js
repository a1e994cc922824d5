import assert from 'node:assert/strict';
import test from 'node:test';

import { customResource, plugin, t, withPhase } from '@windlass/plugin';
import { call } from '@windlass/plugin/testing';

const phased = plugin({
  name: 'phased',
  version: '1.0.0',
  parent: customResource({
    group: 'example.com',
    version: 'v1',
    kind: 'Phased',
    spec: t.object({ phase: t.string() }),
    status: t.object({ phase: t.string(), sizes: t.array(t.integer()), updated: t.optional(t.string()) }),
  }),
  reconcile: (request) =>
    withPhase(
      request,
      { status: { sizes: [1, 2], phase: request.spec.phase }, requeue: '5m' },
      { message: 'because', ready: ['Running', 'Idle'], timeField: 'updated' },
    ),
});

/** Calls the plugin for a phase, with the status before. */
const respond = (/** @type {string} */ phase, /** @type {object | undefined} */ status = undefined) =>
  call(phased, { parent: { metadata: { name: 'a' }, spec: { phase }, ...(status && { status }) }, at: '2026-02-03T04:05:06Z' });

test('a phase sets condition, event, time and requeue', () => {
  const time = '2026-02-03T04:05:06Z';
  const ready = (/** @type {string} */ reason, /** @type {string} */ status) => [{ type: 'Ready', status, reason, message: 'because' }];
  const first = respond('Running');
  assert.deepEqual(first.status, { phase: 'Running', sizes: [1, 2], updated: time, conditions: ready('Running', 'True') });
  assert.deepEqual([first.events, first.requeue], [[], 300_000]);
  const before = { phase: 'Running', sizes: [1, 2], updated: '2026-01-01T00:00:00Z' };
  assert.equal(respond('Running', before).status.updated, '2026-01-01T00:00:00Z', 'nothing changed');
  assert.equal(respond('Running', { ...before, sizes: [1] }).status.updated, time);
  const failed = respond('Failed', before);
  assert.deepEqual(failed.status, { phase: 'Failed', sizes: [1, 2], updated: time, conditions: ready('Failed', 'False') });
  assert.deepEqual(failed.events, [{ type: 'Warning', reason: 'Failed', message: 'because' }]);
  assert.equal(failed.requeue, 30_000);
  assert.deepEqual(respond('Idle', before).events, [{ type: 'Normal', reason: 'Idle', message: 'because' }]);
});

test('a response without a status has no phase', () => {
  const without = plugin({ ...phased.definition, reconcile: (request) => withPhase(/** @type {any} */ (request), {}, { message: '' }) });
  const parent = { metadata: { name: 'a' }, spec: { phase: 'Running' } };
  assert.throws(() => call(without, { parent }), /a response without a status has no phase/);
});
