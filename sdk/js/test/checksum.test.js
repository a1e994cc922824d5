import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import test from 'node:test';

import { checksum } from '@windlass/plugin';

const digits = (/** @type {string} */ text) => createHash('sha256').update(text).digest('hex').slice(0, 16);

test('a checksum is the same in all languages', () => {
  assert.equal(checksum({ a: 1, b: ['x'] }), '9575cb8196f08d95');
  assert.equal(checksum({ b: ['x'], a: 1 }), '9575cb8196f08d95');
});

test('a checksum is that of the JSON list of the values, with keys in the order of their bytes', () => {
  assert.equal(checksum(), digits('[]'));
  assert.equal(checksum('ü', null, 2n ** 63n, { b: undefined, c: null }), digits('["ü",null,9223372036854775808,{"c":null}]'));
  assert.equal(checksum({ 9: 1, 10: 2, a: [{ z: 1, b: 2 }] }), digits('[{"10":2,"9":1,"a":[{"b":2,"z":1}]}]'));
  assert.equal(checksum({ '😀': 1, '\uff5e': 2, '\uff5ea': 3 }), digits('[{"\uff5e":2,"\uff5ea":3,"😀":1}]'));
  assert.notEqual(checksum('a', 'b'), checksum(['a', 'b']));
  assert.throws(() => checksum({ ratio: Number.NaN }), TypeError);
});

test('a checksum of a text of any length is its SHA-256', () => {
  for (let length = 50; length < 200; length++) {
    const text = 'x'.repeat(length);
    assert.equal(checksum(text), digits(`["${text}"]`));
  }
});
