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
  assert.throws(() => t.integer({ default: /** @type {any} */ ('one') }), { message: 'default: "one" is not a whole number' });
});

test('an optional field with a default has it', () => {
  const type = t.object({ a: t.optional(t.string({ default: 'b' })) });
  assert.deepEqual(schema(type).properties.a, { type: 'string', default: 'b', nullable: true });
  assert.deepEqual(type.read({ a: null }, 'spec'), { a: 'b' });
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

test('a value of another JSON type fails, and the field is named from the root', () => {
  const type = t.object({
    whole: t.optional(t.integer()),
    big: t.optional(t.bigint()),
    number: t.optional(t.number()),
    name: t.optional(t.string()),
    size: t.optional(t.enum(['small', 'large'])),
    on: t.optional(t.boolean()),
    target: t.optional(t.intOrString()),
    cpu: t.optional(t.quantity()),
    ports: t.optional(t.array(t.object({ name: t.string() }))),
    labels: t.optional(t.map(t.string())),
  });
  const expected = {
    '[]': 'spec: [] is not an object',
    '{"whole":"three"}': 'spec.whole: "three" is not a whole number',
    '{"whole":1.5}': 'spec.whole: 1.5 is not a whole number',
    '{"whole":9007199254740993}': 'spec.whole: 9007199254740993 is not between -9007199254740991 and 9007199254740991',
    '{"whole":1e300}': 'spec.whole: 1e+300 is not between -9007199254740991 and 9007199254740991',
    '{"big":1.5}': 'spec.big: 1.5 is not a whole number',
    '{"number":"1"}': 'spec.number: "1" is not a number',
    '{"name":1}': 'spec.name: 1 is not a string',
    '{"size":1}': 'spec.size: 1 is not a string',
    '{"on":"true"}': 'spec.on: "true" is not true or false',
    '{"target":1.5}': 'spec.target: 1.5 is not a whole number or a string',
    '{"cpu":0.5}': 'spec.cpu: 0.5 is not a quantity like 100m, 2 or 128Mi',
    '{"ports":{}}': 'spec.ports: {} is not a list',
    '{"ports":[{"name":"a"},"b"]}': 'spec.ports[1]: "b" is not an object',
    '{"ports":[{"name":"a"},{"name":{}}]}': 'spec.ports[1].name: {} is not a string',
    '{"labels":{"a.b/c":1}}': 'spec.labels.a.b/c: 1 is not a string',
  };
  for (const [json, text] of Object.entries(expected)) {
    assert.equal(message(type, json), text, json);
  }
});

test('a value that only the schema does not allow is read', () => {
  const type = t.object({
    replicas: t.integer({ minimum: 0, maximum: 9 }),
    name: t.string({ minLength: 1, pattern: /^[a-z]+$/ }),
    size: t.enum(['small', 'large']),
    cpu: t.quantity(),
    tags: t.array(t.string(), { minItems: 1, listType: 'set' }),
    image: t.string(),
  });
  const spec = { replicas: 12, name: '', size: 'huge', cpu: '1 Gi', tags: ['a', 'a'] };
  assert.deepEqual(type.read(spec, 'spec'), spec);
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

test('a pattern is for the API server and the host, in their syntax', () => {
  assert.equal(schema(t.string({ pattern: '(?i)\\p{Greek}' })).pattern, '(?i)\\p{Greek}');
});
