// The golden cases of Echo, without WebAssembly and without a cluster. The host's tests run them with the component.

import test from 'node:test';

import { checkCrd, golden } from '@windlass/plugin/testing';

import echo from '../src/plugin.js';

// The same cases as in the other languages.
golden(echo, new URL('../../cases/', import.meta.url));

test('the CRD is the same as in the other languages', () => {
  checkCrd(echo, new URL('../../crd.json', import.meta.url));
});
