// How the host treats children: their options, and those that stay.

import assert from 'node:assert/strict';
import test from 'node:test';

import { childWith, existing, kind, kinds, plugin } from '@windlass/plugin';
import { attempt } from '@windlass/plugin/testing';

/**
 * Calls a plugin that gives this response.
 *
 * @param {import('@windlass/plugin').Definition<any, any, any>['reconcile']} reconcile
 * @param {import('@windlass/plugin').KubernetesObject[]} children
 */
function respond(reconcile, children = []) {
  const { ConfigMap, Job } = kinds;
  const any = plugin({ name: 'any', version: '1.0.0', parent: existing({ kind: ConfigMap }), children: [ConfigMap, Job], reconcile });
  return attempt(any, { parent: { metadata: { name: 'a' } }, children });
}

const configMap = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' } };

test('options of a child go beside it, and the child itself does not change', () => {
  const options = {
    stage: 2,
    retain: true,
    takeOver: true,
    ready: false,
    update: { rolling: ['Available'], recreate: true },
    replaces: { kind: kinds.ConfigMap, namespace: 'web', name: 'old' },
  };
  const b = { ...configMap, metadata: { name: 'b' } };
  const { response } = respond(() => ({ children: [childWith(configMap, options), childWith(b, { once: 'v2' })] }));
  assert.deepEqual(response?.options, [options, { once: 'v2' }]);
  assert.deepEqual(response?.children, [configMap, b]);
});

test('options are added to those that a child has, and a copy of the child keeps them', () => {
  const first = childWith(configMap, { stage: 1, update: 'on-delete' });
  const copy = { ...childWith(first, { retain: true, update: 'recreate' }), metadata: { name: 'b' } };
  const { response } = respond(() => ({ children: [first, copy] }));
  assert.deepEqual(response?.options, [
    { stage: 1, update: 'on-delete' },
    { stage: 1, retain: true, update: 'recreate' },
  ]);
});

test('an option that cannot be one fails the call', () => {
  const message = (/** @type {any} */ options) => respond(() => ({ children: [childWith(configMap, options)] })).failure?.message;
  assert.equal(message({ retained: true }), 'TypeError: retained is not a field of the options of a child');
  for (const stage of [-1, 1.5, '1', 2 ** 32]) {
    assert.match(message({ stage }) ?? '', /children\[0\]: .* is not a stage/);
  }
  assert.equal(message({ once: 7 }), 'TypeError: children[0]: once is 7 instead of a string');
  assert.equal(message({ replaces: { name: 'b' } }), 'TypeError: children[0]: replaces.kind is not a kind');
});

test('children are kept by reference, as live objects, or all together', () => {
  const keep = (/** @type {(request: any) => any} */ choose) =>
    respond((request) => ({ keep: choose(request) }), [{ apiVersion: 'batch/v1', kind: 'Job', metadata: { name: 'j', namespace: 'web' } }]);
  assert.equal(keep(() => 'all').response?.keep, 'all');
  assert.deepEqual(keep(() => []).response?.keep, []);
  const job = { kind: { apiVersion: 'batch/v1', name: 'Job' }, namespace: 'web', name: 'j' };
  assert.deepEqual(keep((request) => [...request.children, undefined]).response?.keep, [job]);
  const OldJob = kind('batch/v1beta1', 'Job');
  assert.deepEqual(keep(() => [{ kind: OldJob, name: 'w' }]).response?.keep, [
    { kind: { apiVersion: 'batch/v1beta1', name: 'Job' }, namespace: undefined, name: 'w' },
  ]);
  assert.equal(keep(() => [{ kind: OldJob }]).failure?.message, 'TypeError: keep[0].name is undefined instead of a string');
});
