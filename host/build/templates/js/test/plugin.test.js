import assert from 'node:assert/strict';
import test from 'node:test';

import { call, checkCrd, golden } from '@windlass/plugin/testing';

import plugin from '../src/plugin.js';

// Calls the plugin with each file in `cases`, and compares the response with the file `….answer.yaml` beside it.
golden(plugin, new URL('../cases/', import.meta.url));

test('crd.json is the CRD of the schemas', () => {
  checkCrd(plugin, new URL('../crd.json', import.meta.url));
});

test('a message of two lines is invalid', () => {
  const parent = { metadata: { name: 'hello' }, spec: { message: 'Hello,\nworld' } };
  assert.throws(() => call(plugin, { parent }), { type: 'invalid', message: 'spec.message: must be one line' });
});
