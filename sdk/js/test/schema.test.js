import assert from 'node:assert/strict';
import test from 'node:test';

import { t } from '@windlass/plugin';

import { parse, stringify } from '../dist/json.js';

/**
 * The schema as it is in the CRD.
 *
 * @param {import('@windlass/plugin').Schema<any>} type
 */
const schema = (type) => JSON.parse(stringify(type.keywords));

/**
 * The message of the failure to read a value.
 *
 * @param {import('@windlass/plugin').Schema<any>} type
 * @param {string} json
 */
function message(type, json) {
  try {
    return type.read(parse(json), 'spec');
  } catch (error) {
    assert.equal(/** @type {any} */ (error).type, 'invalid');
    return /** @type {Error} */ (error).message;
  }
}

test('every type has its structural schema', () => {
  const PRESERVE = { 'x-kubernetes-preserve-unknown-fields': true };
  const type = t.object({
    string: t.string({ description: 'A text.', minLength: 1, maxLength: 9, pattern: /^\S+$/, format: 'hostname' }),
    enum: t.enum(['a', 'b']),
    integer: t.integer({ minimum: 0, maximum: 9, exclusiveMaximum: true, multipleOf: 3 }),
    small: t.integer({ format: 'int32' }),
    bigint: t.bigint({ minimum: 1n }),
    number: t.number({ minimum: 0, exclusiveMinimum: true }),
    boolean: t.boolean(),
    intOrString: t.intOrString(),
    array: t.array(t.string(), { minItems: 1, maxItems: 2, listType: 'set' }),
    entries: t.array(t.object({ name: t.string() }), { listType: 'map', listMapKeys: ['name'] }),
    map: t.map(t.integer(), { minProperties: 1, maxProperties: 2 }),
    open: t.object({}, { preserveUnknownFields: true }),
    json: t.json(),
    optional: t.optional(t.string({ description: 'Maybe.' })),
  });
  assert.deepEqual(schema(type), {
    type: 'object',
    required: [
      'string',
      'enum',
      'integer',
      'small',
      'bigint',
      'number',
      'boolean',
      'intOrString',
      'array',
      'entries',
      'map',
      'open',
      'json',
    ],
    properties: {
      string: { description: 'A text.', type: 'string', minLength: 1, maxLength: 9, pattern: '^\\S+$', format: 'hostname' },
      enum: { type: 'string', enum: ['a', 'b'] },
      integer: { type: 'integer', format: 'int64', minimum: 0, maximum: 9, exclusiveMaximum: true, multipleOf: 3 },
      small: { type: 'integer', format: 'int32' },
      bigint: { type: 'integer', format: 'int64', minimum: 1 },
      number: { type: 'number', format: 'double', minimum: 0, exclusiveMinimum: true },
      boolean: { type: 'boolean' },
      intOrString: { 'x-kubernetes-int-or-string': true },
      array: { type: 'array', items: { type: 'string' }, minItems: 1, maxItems: 2, 'x-kubernetes-list-type': 'set' },
      entries: {
        type: 'array',
        items: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['name'],
      },
      map: {
        type: 'object',
        additionalProperties: { type: 'integer', format: 'int64' },
        minProperties: 1,
        maxProperties: 2,
      },
      open: { type: 'object', ...PRESERVE },
      json: PRESERVE,
      optional: { description: 'Maybe.', type: 'string', nullable: true },
    },
  });
});

test('a default makes a field optional, and contains the defaults of its fields', () => {
  const type = t.object({
    replicas: t.integer({ default: 1 }),
    resources: t.object({ cpu: t.quantity({ default: '100m' }), memory: t.quantity({ default: '1Gi' }) }, { default: { cpu: '2' } }),
    tags: t.array(t.string(), { default: [] }),
  });
  const { required, properties } = schema(type);
  assert.equal(required, undefined);
  assert.deepEqual(properties.resources.default, { cpu: '2', memory: '1Gi' });
  assert.deepEqual(type.read({}, 'spec'), { replicas: 1, resources: { cpu: '2', memory: '1Gi' }, tags: [] });
  const given = { replicas: null, resources: { memory: 1 }, tags: ['a'] };
  assert.deepEqual(type.read(given, 'spec'), { replicas: 1, resources: { cpu: '100m', memory: '1' }, tags: ['a'] });
  assert.throws(() => t.integer({ minimum: 1, default: 0 }), { message: 'default: 0 is less than 1' });
});

test('an optional field with a default has it', () => {
  const type = t.object({ a: t.optional(t.string({ default: 'b' })) });
  assert.deepEqual(schema(type).properties.a, { type: 'string', default: 'b', nullable: true });
  assert.deepEqual(type.read({ a: null }, 'spec'), { a: 'b' });
});

test('decimal numbers may be multiples', () => {
  assert.equal(t.number({ multipleOf: 0.1 }).read(0.3, 'spec'), 0.3);
  assert.equal(t.bigint({ multipleOf: 3n }).read(9007199254740993n, 'spec'), 9007199254740993n);
});

test('a default is another value in every read', () => {
  const type = t.object({ tags: t.array(t.string(), { default: [] }) });
  type.read({}, 'spec').tags.push('changed');
  assert.deepEqual(type.read({}, 'spec'), { tags: [] });
});

test('rules and other keywords are part of the schema', () => {
  const rule = { rule: 'self.min <= self.max', message: 'min exceeds max', fieldPath: '.min' };
  const type = t.object({ min: t.integer(), max: t.integer() }, { rules: [rule], extend: { 'x-kubernetes-map-type': 'atomic' } });
  assert.deepEqual(schema(type)['x-kubernetes-validations'], [rule]);
  assert.equal(schema(type)['x-kubernetes-map-type'], 'atomic');
});

test('a violation names the field from the root', () => {
  const type = t.object({
    replicas: t.integer({ minimum: 0, maximum: 1000, default: 1 }),
    offset: t.optional(t.integer()),
    small: t.optional(t.integer({ format: 'int32' })),
    least: t.optional(t.integer({ minimum: 1 })),
    most: t.optional(t.number({ maximum: 1, exclusiveMaximum: true })),
    even: t.optional(t.integer({ multipleOf: 2 })),
    tenths: t.optional(t.number({ multipleOf: 0.1 })),
    big: t.optional(t.bigint({ maximum: 2n ** 62n })),
    name: t.optional(t.string({ minLength: 1, maxLength: 3, pattern: '^[a-z🚀]*$' })),
    longer: t.optional(t.string({ minLength: 2 })),
    size: t.optional(t.enum(['small', 'large'])),
    on: t.optional(t.boolean()),
    target: t.optional(t.intOrString()),
    cpu: t.optional(t.quantity()),
    ports: t.optional(t.array(t.object({ name: t.string() }), { maxItems: 2, listType: 'map', listMapKeys: ['name'] })),
    tags: t.optional(t.array(t.string(), { minItems: 1, listType: 'set' })),
    labels: t.optional(t.map(t.string(), { maxProperties: 1 })),
  });
  const expected = {
    '[]': 'spec: [] is not an object',
    '{"replicas":"three"}': 'spec.replicas: "three" is not a whole number',
    '{"replicas":1.5}': 'spec.replicas: 1.5 is not a whole number',
    '{"replicas":-1}': 'spec.replicas: -1 is not between 0 and 1000',
    '{"replicas":1001}': 'spec.replicas: 1001 is not between 0 and 1000',
    '{"replicas":9223372036854775807}': 'spec.replicas: 9223372036854775807 is not between 0 and 1000',
    '{"offset":9007199254740993}': 'spec.offset: 9007199254740993 is not between -9007199254740991 and 9007199254740991',
    '{"small":2147483648}': 'spec.small: 2147483648 is not between -2147483648 and 2147483647',
    '{"least":0}': 'spec.least: 0 is less than 1',
    '{"most":1}': 'spec.most: 1 is not less than 1',
    '{"even":3}': 'spec.even: 3 is not a multiple of 2',
    '{"tenths":0.35}': 'spec.tenths: 0.35 is not a multiple of 0.1',
    '{"big":4611686018427387905}': 'spec.big: 4611686018427387905 is more than 4611686018427387904',
    '{"name":1}': 'spec.name: 1 is not a string',
    '{"name":""}': 'spec.name: "" is empty',
    '{"name":"abcd"}': 'spec.name: has 4 characters, more than 3',
    '{"name":"A"}': 'spec.name: "A" does not match ^[a-z🚀]*$',
    '{"longer":"🚀"}': 'spec.longer: has 1 character, fewer than 2',
    '{"size":"huge"}': 'spec.size: "huge" is not one of small, large',
    '{"on":"true"}': 'spec.on: "true" is not true or false',
    '{"target":1.5}': 'spec.target: 1.5 is not a whole number or a string',
    '{"cpu":"1 Gi"}': 'spec.cpu: "1 Gi" is not a quantity like 100m, 2 or 128Mi',
    '{"cpu":0.5}': 'spec.cpu: 0.5 is not a quantity like 100m, 2 or 128Mi',
    '{"ports":{}}': 'spec.ports: {} is not a list',
    '{"ports":[{"name":"a"},{}]}': 'spec.ports[1].name: is required',
    '{"ports":[{"name":"a"},"b"]}': 'spec.ports[1]: "b" is not an object',
    '{"ports":[{"name":"a"},{"name":"a"}]}': 'spec.ports[1].name: "a" is given twice',
    '{"ports":[{},{},{}]}': 'spec.ports: has 3 items, more than 2',
    '{"tags":[]}': 'spec.tags: has 0 items, fewer than 1',
    '{"tags":["a",null]}': 'spec.tags[1]: is required',
    '{"tags":["a","b","a"]}': 'spec.tags[2]: "a" is given twice',
    '{"labels":{"a.b/c":1}}': 'spec.labels.a.b/c: 1 is not a string',
    '{"labels":{"a":"","b":""}}': 'spec.labels: has 2 fields, more than 1',
  };
  for (const [json, text] of Object.entries(expected)) {
    assert.equal(message(type, json), text, json);
  }
});

test('a long value is cut in a message', () => {
  assert.equal(message(t.integer(), JSON.stringify('x'.repeat(200))), `spec: "${'x'.repeat(99)}… is not a whole number`);
});

test('valid values are returned with their types, without unknown fields', () => {
  const type = t.object({
    name: t.string({ maxLength: 3 }),
    big: t.bigint(),
    cpu: t.quantity(),
    none: t.optional(t.string()),
    labels: t.map(t.string()),
    any: t.json(),
  });
  const json = '{"name":"🚀🚀🚀","big":7,"cpu":2,"none":null,"labels":{"__proto__":"a"},"any":{"n":12345678901234567890},"other":1}';
  const value = type.read(parse(json), 'spec');
  assert.deepEqual(Object.keys(value), ['name', 'big', 'cpu', 'labels', 'any']);
  assert.deepEqual([value.big, value.cpu, value.any], [7n, '2', { n: 12345678901234567890n }]);
  assert.deepEqual(Object.entries(value.labels), [['__proto__', 'a']]);
});

test('unknown fields of an open object are kept', () => {
  const type = t.object({ a: t.integer() }, { preserveUnknownFields: true });
  assert.deepEqual(type.read({ a: 1, b: { c: null } }, 'spec'), { a: 1, b: { c: null } });
});

test('an object has only its own fields', () => {
  const type = t.object({ constructor: t.optional(t.string()), toString: t.optional(t.string()) });
  assert.deepEqual(type.read({}, 'spec'), {});
});

test('a pattern that JavaScript cannot check is an error when the plugin is built', () => {
  assert.throws(() => t.string({ pattern: '(?i)a' }), /^SyntaxError: pattern \(\?i\)a cannot be checked/);
});
