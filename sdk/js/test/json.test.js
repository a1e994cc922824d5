import assert from 'node:assert/strict';
import test from 'node:test';

import { decode, encode, parse, stringify } from '../dist/json.js';

test('whole numbers beyond 2^53 are bigints and stay exact', () => {
  const text = '{"max":9223372036854775807,"min":-9223372036854775808,"safe":9007199254740991,"list":[12345678901234567890]}';
  assert.deepEqual(parse(text), {
    max: 9223372036854775807n,
    min: -9223372036854775808n,
    safe: 9007199254740991,
    list: [12345678901234567890n],
  });
  assert.equal(stringify(parse(text)), text);
});

test('digits in strings and names are text, whatever stands around them', () => {
  const value = {
    12345678901234567890: 'integer:12345678901234567890',
    quoted: '"12345678901234567890" \\"integer::1\\"',
    unicode: '\u0000 ü 🚀 \\',
    big: 12345678901234567890n,
    decimal: 1.2345678901234567,
  };
  assert.deepEqual(parse(stringify(value)), value);
});

test('a decimal number is a double', () => {
  assert.deepEqual(parse('[1.10, 0.1234567890123456789, 1e30, 1234567890123456.5]'), [
    1.1, 0.12345678901234568, 1e30, 1234567890123456.5,
  ]);
});

test('fields that are null or undefined are left out, items are not', () => {
  const value = { a: null, b: undefined, c: { d: null, e: [null, { f: null }] } };
  assert.equal(stringify(value), '{"c":{"e":[null,{}]}}');
});

test('values that JSON cannot express are errors that name the field', () => {
  assert.throws(() => stringify({ a: { ratio: Number.NaN } }), { message: 'ratio is NaN, which JSON cannot express' });
  assert.throws(() => stringify([() => 1]), { message: '0 is a function, which JSON cannot express' });
});

test('documents are UTF-8', () => {
  assert.deepEqual(decode(encode({ text: 'größer 🚀' })), { text: 'größer 🚀' });
});

test('a name like __proto__ is an ordinary field', () => {
  const text = '{"__proto__":{"a":1},"n":12345678901234567890}';
  assert.equal(stringify(parse(text)), text);
});
