import assert from 'node:assert/strict';
import test from 'node:test';

import { allow, customResource, deny, plugin, t, withDefaults } from '@windlass/plugin';
import { review } from '@windlass/plugin/testing';

const app = plugin({
  name: 'app',
  version: '1.0.0',
  parent: customResource({
    group: 'example.com',
    version: 'v1',
    kind: 'App',
    spec: t.object({
      image: t.string(),
      replicas: t.integer({ minimum: 1, maximum: 100, default: 1 }),
      resources: t.object({ cpu: t.quantity({ default: '100m' }), memory: t.quantity({ default: '1Gi' }) }, { default: {} }),
    }),
  }),
  config: t.object({ frozen: t.boolean({ default: false }) }),
  reconcile: () => ({}),
  review(request) {
    if (request.isBeingDeleted) {
      return allow(`${request.username} deletes`);
    }
    if (request.config.frozen && request.oldSpec?.image !== request.spec.image) {
      return deny('the image may not change', 'images are frozen');
    }
    return withDefaults(request);
  },
});

/** @param {object} spec */
const object = (spec) => ({ apiVersion: 'example.com/v1', kind: 'App', metadata: { name: 'shop' }, spec });

test('missing fields get defaults and others stay', () => {
  const given = object({ image: 'shop:1', replicas: null, resources: { cpu: 2 }, other: 12345678901234567890n });
  const spec = {
    image: 'shop:1',
    resources: { cpu: 2, memory: '1Gi' },
    other: 12345678901234567890n,
    replicas: 1,
  };
  assert.deepEqual(review(app, { object: given }), { replace: object(spec), warnings: [] });
});

test('a complete object is allowed unchanged', () => {
  const whole = object({ image: 'shop:1', replicas: 2, resources: { cpu: 1, memory: 1 } });
  assert.deepEqual(review(app, { object: whole, oldObject: whole }), { allow: true, warnings: [] });
});

test('an object whose spec cannot be read is denied and the field is named', () => {
  assert.deepEqual(review(app, { object: object({ image: 7 }) }), { deny: 'spec.image: 7 is not a string', warnings: [] });
});

test('a review depends on the operation, the old object, the user and the config', () => {
  const [before, after] = [object({ image: 'shop:1' }), object({ image: 'shop:2' })];
  assert.deepEqual(review(app, { object: after, oldObject: before, config: { frozen: true } }), {
    deny: 'the image may not change',
    warnings: ['images are frozen'],
  });
  assert.deepEqual(review(app, { oldObject: object({}), username: 'ada' }), { allow: true, warnings: ['ada deletes'] });
  const deleted = { ...object({}), metadata: { name: 'shop', deletionTimestamp: '2026-01-01T00:00:00Z' } };
  assert.deepEqual(review(app, { object: deleted, oldObject: deleted }), { allow: true, warnings: ['user deletes'] });
});
