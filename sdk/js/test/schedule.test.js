import assert from 'node:assert/strict';
import test from 'node:test';

import { customResource, plugin, Schedule, t } from '@windlass/plugin';
import { call } from '@windlass/plugin/testing';

const nightly = plugin({
  name: 'nightly',
  version: '1.0.0',
  clock: true,
  parent: customResource({
    group: 'example.com',
    version: 'v1',
    kind: 'Nightly',
    spec: t.object({ schedule: t.string(), timeZone: t.optional(t.string()), last: t.string() }),
    status: t.object({ due: t.optional(t.string()) }),
  }),
  reconcile({ spec: { schedule, timeZone, last }, now }) {
    const fields = { field: 'spec.schedule', timeZoneField: 'spec.timeZone' };
    const due = new Schedule(schedule, { timeZone, ...fields }).due({ last: new Date(last), now });
    return { status: { due: due.time?.toISOString() }, requeueAt: due.next };
  },
});

/** The times of the plugin, called at this one. */
function due(/** @type {string} */ at, /** @type {object} */ spec) {
  const { status, requeueAt } = call(nightly, {
    parent: { metadata: { name: 'a' }, spec: { last: '2026-03-29T00:00:00Z', ...spec } },
    at,
  });
  return [status.due, new Date(requeueAt ?? 0).toISOString()];
}

test('the latest time that was missed is due until it is handled', () => {
  const schedule = '*/10 * * * *';
  const [at10, at20] = ['2026-03-29T00:10:00.000Z', '2026-03-29T00:20:00.000Z'];
  assert.deepEqual(due('2026-03-29T00:09:00Z', { schedule }), [undefined, at10]);
  assert.deepEqual(due('2026-03-29T00:10:00Z', { schedule }), [at10, at20]);
  assert.equal(due('2026-03-29T00:29:59Z', { schedule })[0], at20);
  assert.equal(due('2026-03-29T00:29:59Z', { schedule, last: at20 })[0], undefined);
});

test('a time that the clock of the zone skips comes when it changes', () => {
  const spec = { schedule: '30 2 * * *', timeZone: 'Europe/Berlin' };
  const change = '2026-03-29T01:00:00.000Z';
  assert.deepEqual(due('2026-03-29T00:59:00Z', spec), [undefined, change]);
  assert.deepEqual(due('2026-03-29T01:00:00Z', spec), [change, '2026-03-30T00:30:00.000Z']);
});

test('a wrong schedule or time zone is invalid with its field', () => {
  const invalid = (/** @type {RegExp} */ message, /** @type {object} */ spec) =>
    assert.throws(() => due('2026-03-29T00:00:00Z', spec), { name: 'Failure', type: 'invalid', message });
  invalid(/^spec\.schedule: hour "25" in the schedule "0 25 \* \* \*" /, { schedule: '0 25 * * *' });
  invalid(/^spec\.timeZone: "Berlin" is not a time zone: write /, { schedule: '@daily', timeZone: 'Berlin' });
});

test('a value that is no time is a mistake, and so is a schedule without a host', () => {
  const schedule = new Schedule('@daily');
  assert.throws(() => schedule.next(/** @type {any} */ ('2026')), { name: 'TypeError', message: 'after is 2026 instead of a time' });
  assert.throws(() => schedule.next(new Date(0)), /^Error: the host computes the times of a schedule: call the plugin in a test/);
});
