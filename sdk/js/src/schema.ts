/**
 * Types of specs, statuses and configurations: one declaration gives the schema of the CRD, the conversion of a value that was read, and
 * the static type ({@link Infer}).
 */

import { invalid } from './failure.js';
import { stringify, type JsonObject, type JsonValue } from './json.js';

declare const valueType: unique symbol;
declare const optionality: unique symbol;

/** A CEL rule (`x-kubernetes-validations`). Only the API server evaluates it. */
export interface Rule {
  /** The expression: `self.min <= self.max`. */
  rule: string;
  /** The message for users whose object violates the rule. */
  message?: string;
  /** An expression for the message. */
  messageExpression?: string;
  /** The field that violates the rule, below the value: `.min`. */
  fieldPath?: string;
  /** A reason of the API server: `FieldValueInvalid`. */
  reason?: string;
  /** Whether a rule with `oldSelf` also runs for a new value. */
  optionalOldSelf?: boolean;
}

/**
 * What every schema may have. By the options, which are keywords of the CRD's schema, the API server checks what users write, and the host
 * checks each parent before a call, and the Plugin's `spec.config`.
 */
export interface Options<T> {
  /** What the field means, for `kubectl explain`. */
  description?: string;
  /** The value of an absent field. */
  default?: T;
  /** CEL rules, which only the API server evaluates. */
  rules?: readonly Rule[];
  /** Keywords that this builder does not have, as `{ 'x-kubernetes-map-type': 'atomic' }`. */
  extend?: Readonly<JsonObject>;
}

/** Options of `t.string`. */
export interface StringOptions<T = string> extends Options<T> {
  /** The least number of characters. */
  minLength?: number;
  /** The greatest number of characters. */
  maxLength?: number;
  /** A regular expression in the syntax of RE2, as the API server reads it. Of a `RegExp`, only the text counts, and no flag. */
  pattern?: string | RegExp;
  /** A format that the API server checks, as `date-time`, `duration`, `ipv4` or `uuid`. */
  format?: string;
}

/** Options of numbers. */
export interface NumberOptions<T = number> extends Options<T> {
  /** The least value. */
  minimum?: T;
  /** The greatest value. */
  maximum?: T;
  /** Whether `minimum` itself is too small. */
  exclusiveMinimum?: boolean;
  /** Whether `maximum` itself is too great. */
  exclusiveMaximum?: boolean;
  /** The value is a multiple of this. */
  multipleOf?: T;
}

/** Options of `t.integer`. */
export interface IntegerOptions extends NumberOptions {
  /** The format: `int64` by default. */
  format?: 'int32' | 'int64';
}

/** Options of `t.array`. */
export interface ArrayOptions<T> extends Options<readonly T[]> {
  /** The least number of items. */
  minItems?: number;
  /** The greatest number of items. */
  maxItems?: number;
  /** How field managers share the list: each item has one owner (`set`, `map`), or the whole list (`atomic`, the default). */
  listType?: 'set' | 'map' | 'atomic';
  /** The fields that identify an item of a `map`. */
  listMapKeys?: readonly (string & keyof T)[];
}

/** Options of `t.map`. */
export interface MapOptions<T> extends Options<Readonly<Record<string, T>>> {
  /** The least number of entries. */
  minProperties?: number;
  /** The greatest number of entries. */
  maxProperties?: number;
}

/** Options of `t.object`. */
export interface ObjectOptions<T> extends Options<Partial<T>> {
  /** Whether the API server stores fields that are not declared; {@link Schema.read} returns them too. */
  preserveUnknownFields?: boolean;
}

/** The conversion of a value that is neither absent nor null. */
type Convert<T> = (value: JsonValue, path: string) => T;

/** A type of values; `t` makes them. */
export class Schema<T> {
  /** Only for the compiler. */
  declare readonly [valueType]: T;
  /** The structural schema, as in a CRD. */
  readonly keywords: Readonly<JsonObject>;
  /** Whether the value may not be absent: it is not optional and has no default. */
  readonly isRequired: boolean;
  readonly #convert: Convert<T>;
  readonly #default: JsonValue | undefined;

  /** @internal */
  constructor(keywords: JsonObject, options: Options<unknown>, convert: Convert<T>, isOptional = false) {
    this.#convert = convert;
    this.#default = options.default as JsonValue | undefined;
    this.isRequired = !isOptional && this.#default === undefined;
    if (options.description !== undefined) {
      keywords['description'] = options.description;
    }
    if (this.#default !== undefined) {
      // With the defaults of the fields in it.
      keywords['default'] = convert(this.#default, 'default') as JsonValue;
    }
    if (options.rules !== undefined && options.rules.length > 0) {
      keywords['x-kubernetes-validations'] = options.rules.map((rule) => ({ ...rule }));
    }
    this.keywords = Object.freeze({ ...keywords, ...options.extend });
  }

  /**
   * Converts a value that was read from JSON, and returns it with defaults and without unknown fields. An absent value, as null, is
   * `undefined`, also where the schema requires one: the host and the API server check values, and this does not.
   *
   * @param path the path of the value, for the message: `spec`.
   * @throws {Failure} `invalid`, naming the field from the root, if JSON of this type cannot be converted.
   */
  read(value: JsonValue | undefined, path: string): T {
    const given = value ?? this.#default ?? undefined;
    return given === undefined ? (undefined as T) : this.#convert(given, path);
  }

  /** An optional one, of the same conversion. @internal */
  optional(): Optional<T> {
    return new Schema<T | undefined>({ ...this.keywords, nullable: true }, { default: this.#default }, this.#convert, true) as Optional<T>;
  }
}

/** A type of values that may be absent; `t.optional` makes it. */
export interface Optional<T> extends Schema<T | undefined> {
  /** Only for the compiler. */
  readonly [optionality]: true;
}

/** The static type of a schema. */
export type Infer<S extends Schema<any>> = S[typeof valueType];

/** The fields of an object. */
export type Properties = Readonly<Record<string, Schema<any>>>;

/** The static type of an object. */
export type InferProperties<P extends Properties> = Flat<
  { [K in keyof P as P[K] extends Optional<any> ? never : K]: Infer<P[K]> } & {
    [K in keyof P as P[K] extends Optional<any> ? K : never]?: Infer<P[K]>;
  }
>;

type Flat<T> = { [K in keyof T]: T[K] };

/** A value in a message. */
function shown(value: unknown): string {
  const text = stringify(value);
  return text.length > 100 ? `${text.slice(0, 100)}…` : text;
}

function not(value: unknown, path: string, what: string): never {
  throw invalid(path, `${shown(value)} is not ${what}`);
}

/** Copies the options that are keywords. */
function pick<T extends object>(options: T, names: readonly (keyof T & string)[]): JsonObject {
  return Object.fromEntries(
    names.flatMap((name) => (options[name] === undefined ? [] : [[name, options[name] as JsonValue]])),
  );
}

const BOUNDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'] as const;

/** A quantity as Kubernetes writes it. */
const QUANTITY = '^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?[0-9]+))?$';
const INT_OR_STRING = 'x-kubernetes-int-or-string';
const PRESERVE = 'x-kubernetes-preserve-unknown-fields';

function isObject(value: JsonValue): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function string(options: StringOptions = {}): Schema<string> {
  const { pattern } = options;
  const keywords: JsonObject = { type: 'string', ...pick(options, ['minLength', 'maxLength', 'format']) };
  if (pattern !== undefined) {
    keywords['pattern'] = pattern instanceof RegExp ? pattern.source : pattern;
  }
  return new Schema(keywords, options, asString);
}

function asString(value: JsonValue, path: string): string {
  return typeof value === 'string' ? value : not(value, path, 'a string');
}

function enumeration<const V extends string>(values: readonly V[], options: Options<NoInfer<V>> = {}): Schema<V> {
  return new Schema({ type: 'string', enum: [...values] }, options, (value, path) => asString(value, path) as V);
}

function integer(options: IntegerOptions = {}): Schema<number> {
  const { format = 'int64' } = options;
  return new Schema({ type: 'integer', format, ...pick(options, BOUNDS) }, options, (value, path) => {
    const whole = asWhole(value, path);
    return Number.isSafeInteger(whole)
      ? (whole as number)
      : not(whole, path, `between ${Number.MIN_SAFE_INTEGER} and ${Number.MAX_SAFE_INTEGER}`);
  });
}

function bigint(options: NumberOptions<bigint> = {}): Schema<bigint> {
  const keywords = { type: 'integer', format: 'int64', ...pick(options, BOUNDS) };
  return new Schema(keywords, options, (value, path) => BigInt(asWhole(value, path)));
}

function asWhole(value: JsonValue, path: string): number | bigint {
  return typeof value === 'bigint' || Number.isInteger(value) ? (value as number | bigint) : not(value, path, 'a whole number');
}

function number(options: NumberOptions = {}): Schema<number> {
  return new Schema({ type: 'number', format: 'double', ...pick(options, BOUNDS) }, options, (value, path) =>
    typeof value === 'number' || typeof value === 'bigint' ? Number(value) : not(value, path, 'a number'),
  );
}

function boolean(options: Options<boolean> = {}): Schema<boolean> {
  return new Schema({ type: 'boolean' }, options, (value, path) =>
    typeof value === 'boolean' ? value : not(value, path, 'true or false'),
  );
}

function intOrString(options: Options<number | string> = {}): Schema<number | string> {
  return new Schema({ [INT_OR_STRING]: true }, options, (value, path) =>
    typeof value === 'string' || Number.isSafeInteger(value)
      ? (value as number | string)
      : not(value, path, 'a whole number or a string'),
  );
}

function quantity(options: Options<string> = {}): Schema<string> {
  // The API server estimates the cost of CEL rules by the length: without it, a rule on a list of quantities is rejected.
  const keywords = { [INT_OR_STRING]: true, maxLength: 64, pattern: QUANTITY };
  return new Schema(keywords, options, (value, path) => {
    const text = typeof value === 'bigint' || Number.isInteger(value) ? String(value) : value;
    return typeof text === 'string' ? text : not(value, path, 'a quantity like 100m, 2 or 128Mi');
  });
}

function array<S extends Schema<any>>(items: S, options: ArrayOptions<Infer<S>> = {}): Schema<Infer<S>[]> {
  const { listType, listMapKeys } = options;
  const keywords: JsonObject = { type: 'array', items: items.keywords as JsonObject, ...pick(options, ['minItems', 'maxItems']) };
  if (listType !== undefined) {
    keywords['x-kubernetes-list-type'] = listType;
  }
  if (listMapKeys !== undefined) {
    keywords['x-kubernetes-list-map-keys'] = [...listMapKeys];
  }
  return new Schema(keywords, options as Options<unknown>, (value, path) => {
    if (!Array.isArray(value)) {
      not(value, path, 'a list');
    }
    return value.map((item, index): Infer<S> => items.read(item, `${path}[${index}]`));
  });
}

function map<S extends Schema<any>>(values: S, options: MapOptions<Infer<S>> = {}): Schema<Record<string, Infer<S>>> {
  const bounds = pick(options, ['minProperties', 'maxProperties']);
  const keywords = { type: 'object', additionalProperties: values.keywords as JsonObject, ...bounds };
  return new Schema(keywords, options as Options<unknown>, (value, path) => {
    if (!isObject(value)) {
      not(value, path, 'an object');
    }
    const entries = Object.entries(value).map(([key, value]): [string, Infer<S>] => [key, values.read(value, `${path}.${key}`)]);
    return Object.fromEntries(entries);
  });
}

function object<P extends Properties>(
  properties: P,
  options: ObjectOptions<InferProperties<P>> = {},
): Schema<InferProperties<P>> {
  const fields = Object.entries(properties);
  const required = fields.filter(([, schema]) => schema.isRequired).map(([name]) => name);
  const keywords: JsonObject = { type: 'object' };
  if (fields.length > 0) {
    keywords['properties'] = Object.fromEntries(fields.map(([name, schema]) => [name, schema.keywords as JsonObject]));
  }
  if (required.length > 0) {
    keywords['required'] = required;
  }
  if (options.preserveUnknownFields) {
    keywords[PRESERVE] = true;
  }
  return new Schema(keywords, options as Options<unknown>, (value, path) => {
    if (!isObject(value)) {
      not(value, path, 'an object');
    }
    const read: [string, unknown][] = [];
    for (const [name, schema] of fields) {
      const field = schema.read(Object.hasOwn(value, name) ? value[name] : undefined, `${path}.${name}`);
      if (field !== undefined) {
        read.push([name, field]);
      }
    }
    if (options.preserveUnknownFields) {
      read.push(...Object.entries(value).filter(([name]) => !Object.hasOwn(properties, name)));
    }
    return Object.fromEntries(read) as InferProperties<P>;
  });
}

function json(options: Options<JsonValue> = {}): Schema<any> {
  return new Schema<any>({ [PRESERVE]: true }, options, (value) => value);
}

function optional<S extends Schema<any>>(schema: S): Optional<Infer<S>> {
  return schema.optional();
}

/**
 * Makes types. Their options have the names of the keywords in a CRD's schema.
 *
 * ```ts
 * const spec = t.object({
 *   image: t.string({ description: 'The image.', minLength: 1 }),
 *   replicas: t.integer({ minimum: 0, maximum: 9, default: 1 }),
 *   host: t.optional(t.string()),
 *   size: t.enum(['small', 'large'], { default: 'small' }),
 *   env: t.array(t.object({ name: t.string(), value: t.string() }), { listType: 'map', listMapKeys: ['name'] }),
 *   labels: t.map(t.string(), { default: {} }),
 * });
 * type Spec = Infer<typeof spec>;
 * ```
 *
 * A structural schema has neither references nor types beside each other, so there are no unions and no recursive types: declare
 * optional fields and a CEL rule that one of them is set, or `t.json`.
 */
export const t = Object.freeze({
  /** A string. */
  string,
  /** One of several strings. */
  enum: enumeration,
  /** A whole number within ±(2⁵³ − 1). */
  integer,
  /** A whole number of 64 bits, as a bigint: for numbers that may be beyond ±(2⁵³ − 1). */
  bigint,
  /** A number. */
  number,
  /** True or false. */
  boolean,
  /** A whole number or a string, like a Service's `targetPort`. */
  intOrString,
  /** A quantity like `100m`, `2` or `128Mi`, as a string with the user's notation. {@link Quantity} compares them. */
  quantity,
  /** A list. */
  array,
  /** An object with any names of fields, like labels. */
  map,
  /** An object with these fields. */
  object,
  /** Any value, which the API server stores as it is. Whole numbers beyond ±(2⁵³ − 1) in it are bigints. */
  json,
  /** A value that may be absent or null; both are read as `undefined`. A value with a default needs no `optional`. */
  optional,
});
