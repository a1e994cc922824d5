/**
 * Types of specs, statuses and configurations: one declaration gives the schema of the CRD, the checks of a value that was read, and
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

/** What every schema may have. */
export interface Options<T> {
  /** What the field means, for `kubectl explain`. */
  description?: string;
  /** The value of an absent field. */
  default?: T;
  /** CEL rules. */
  rules?: readonly Rule[];
  /** Keywords that this builder does not have, as `{ 'x-kubernetes-map-type': 'atomic' }`. Nothing here checks them. */
  extend?: Readonly<JsonObject>;
}

/** Options of `t.string`. */
export interface StringOptions<T = string> extends Options<T> {
  /** The least number of characters. */
  minLength?: number;
  /** The greatest number of characters. */
  maxLength?: number;
  /**
   * A regular expression that has the same meaning in JavaScript (with flag `u`) and in RE2, which the API server uses. The engine of a
   * component has no `\p{…}`: only the API server checks a pattern that is given as `extend: { pattern: '…' }`.
   */
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

/** A check and conversion of one value. */
type Read<T> = (value: JsonValue, path: string) => T;

/** A type of values; `t` makes them. */
export class Schema<T> {
  /** Only for the compiler. */
  declare readonly [valueType]: T;
  /** The structural schema, as in a CRD. */
  readonly keywords: Readonly<JsonObject>;
  /** Whether the value may not be absent: it is not optional and has no default. */
  readonly isRequired: boolean;
  readonly #check: Read<T>;
  readonly #default: JsonValue | undefined;
  readonly #isOptional: boolean;

  /** @internal */
  constructor(keywords: JsonObject, options: Options<unknown>, check: Read<T>, isOptional = false) {
    this.#check = check;
    this.#isOptional = isOptional;
    this.#default = options.default as JsonValue | undefined;
    this.isRequired = !isOptional && this.#default === undefined;
    if (options.description !== undefined) {
      keywords['description'] = options.description;
    }
    if (this.#default !== undefined) {
      // With the defaults of the fields in it.
      keywords['default'] = check(this.#default, 'default') as JsonValue;
    }
    if (options.rules !== undefined && options.rules.length > 0) {
      keywords['x-kubernetes-validations'] = options.rules.map((rule) => ({ ...rule }));
    }
    this.keywords = Object.freeze({ ...keywords, ...options.extend });
  }

  /**
   * Checks a value that was read from JSON and returns it, with defaults and without unknown fields. An absent value is
   * `undefined`; null means absent too.
   *
   * @param path the path of the value, for the message: `spec`.
   * @throws {Failure} `invalid`, naming the field from the root, if the value is not of this type.
   */
  read(value: JsonValue | undefined, path: string): T {
    const given = value ?? this.#default ?? undefined;
    if (given !== undefined) {
      return this.#check(given, path);
    }
    if (this.#isOptional) {
      return undefined as T;
    }
    throw invalid(path, 'is required');
  }

  /** An optional one, of the same check. @internal */
  optional(): Optional<T> {
    return new Schema<T | undefined>({ ...this.keywords, nullable: true }, { default: this.#default }, this.#check, true) as Optional<T>;
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

/** Counts as the API server does. */
function characters(text: string): number {
  return [...text].length;
}

function checkCount(count: number, min: number | undefined, max: number | undefined, path: string, noun: string): void {
  const has = `has ${count} ${noun}${count === 1 ? '' : 's'}`;
  if (min !== undefined && count < min) {
    throw invalid(path, `${has}, fewer than ${min}`);
  }
  if (max !== undefined && count > max) {
    throw invalid(path, `${has}, more than ${max}`);
  }
}

/** Checks the bounds of a number; `least` and `most` are those of the type. */
function checkBounds<T extends number | bigint>(value: T, options: NumberOptions<T>, path: string, least?: T, most?: T): void {
  const { minimum, maximum, exclusiveMinimum = false, exclusiveMaximum = false, multipleOf } = options;
  const low = minimum === undefined || (least !== undefined && least > minimum) ? least : minimum;
  const high = maximum === undefined || (most !== undefined && most < maximum) ? most : maximum;
  const isLow = low !== undefined && (exclusiveMinimum ? value <= low : value < low);
  const isHigh = high !== undefined && (exclusiveMaximum ? value >= high : value > high);
  if ((isLow || isHigh) && (minimum === undefined) === (maximum === undefined) && !exclusiveMinimum && !exclusiveMaximum) {
    throw invalid(path, `${value} is not between ${low} and ${high}`);
  }
  if (isLow) {
    throw invalid(path, `${value} is ${exclusiveMinimum ? 'not more' : 'less'} than ${low}`);
  }
  if (isHigh) {
    throw invalid(path, `${value} is ${exclusiveMaximum ? 'not less' : 'more'} than ${high}`);
  }
  if (multipleOf !== undefined && !isMultiple(value, multipleOf)) {
    throw invalid(path, `${value} is not a multiple of ${multipleOf}`);
  }
}

/** Whether a number is a multiple of another, up to the rounding of doubles: 0.3 is one of 0.1. */
function isMultiple(value: number | bigint, of: number | bigint): boolean {
  if (typeof value === 'bigint' && typeof of === 'bigint') {
    return value % of === 0n;
  }
  const quotient = Number(value) / Number(of);
  return Math.abs(quotient - Math.round(quotient)) <= Number.EPSILON * Math.abs(quotient);
}

const BOUNDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'] as const;

/** A quantity as Kubernetes writes it. */
const QUANTITY = '^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?[0-9]+))?$';
const INT_OR_STRING = 'x-kubernetes-int-or-string';
const PRESERVE = 'x-kubernetes-preserve-unknown-fields';

function isObject(value: JsonValue): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** RE2 reads characters, not units of UTF-16, which takes the flag `u`. */
function expressionOf(pattern: string): RegExp {
  try {
    return new RegExp(pattern, 'u');
  } catch (error) {
    throw new SyntaxError(
      `pattern ${pattern} cannot be checked (${(error as Error).message}); with extend: { pattern: '…' }, only the API server checks it`,
    );
  }
}

function string(options: StringOptions = {}): Schema<string> {
  const { minLength, maxLength } = options;
  const pattern = options.pattern instanceof RegExp ? options.pattern.source : options.pattern;
  const expression = pattern === undefined ? undefined : expressionOf(pattern);
  const keywords: JsonObject = { type: 'string', ...pick(options, ['minLength', 'maxLength', 'format']) };
  if (pattern !== undefined) {
    keywords['pattern'] = pattern;
  }
  return new Schema(keywords, options, (value, path) => {
    if (typeof value !== 'string') {
      not(value, path, 'a string');
    }
    if (minLength === 1 && value === '') {
      throw invalid(path, '"" is empty');
    }
    if (minLength !== undefined || maxLength !== undefined) {
      checkCount(characters(value), minLength, maxLength, path, 'character');
    }
    if (expression !== undefined && !expression.test(value)) {
      throw invalid(path, `${shown(value)} does not match ${pattern}`);
    }
    return value;
  });
}

function enumeration<const V extends string>(values: readonly V[], options: Options<NoInfer<V>> = {}): Schema<V> {
  return new Schema({ type: 'string', enum: [...values] }, options, (value, path) =>
    values.includes(value as V) ? (value as V) : not(value, path, `one of ${values.join(', ')}`),
  );
}

function integer(options: IntegerOptions = {}): Schema<number> {
  const { format = 'int64' } = options;
  const [least, most] =
    format === 'int32' ? [-(2 ** 31), 2 ** 31 - 1] : [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];
  return new Schema({ type: 'integer', format, ...pick(options, BOUNDS) }, options, (value, path) => {
    if (typeof value !== 'bigint' && !Number.isInteger(value)) {
      not(value, path, 'a whole number');
    }
    // A bigint is beyond the bounds of the type.
    checkBounds(value as number, options, path, least, most);
    return value as number;
  });
}

function bigint(options: NumberOptions<bigint> = {}): Schema<bigint> {
  return new Schema({ type: 'integer', format: 'int64', ...pick(options, BOUNDS) }, options, (value, path) => {
    if (typeof value !== 'bigint' && !Number.isInteger(value)) {
      not(value, path, 'a whole number');
    }
    const exact = BigInt(value as bigint | number);
    checkBounds(exact, options, path, -(2n ** 63n), 2n ** 63n - 1n);
    return exact;
  });
}

function number(options: NumberOptions = {}): Schema<number> {
  return new Schema({ type: 'number', format: 'double', ...pick(options, BOUNDS) }, options, (value, path) => {
    if (typeof value !== 'number' && typeof value !== 'bigint') {
      not(value, path, 'a number');
    }
    checkBounds(Number(value), options, path);
    return Number(value);
  });
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
  const expression = new RegExp(QUANTITY);
  // The API server estimates the cost of CEL rules by the length: without it, a rule on a list of quantities is rejected.
  const keywords = { [INT_OR_STRING]: true, maxLength: 64, pattern: QUANTITY };
  return new Schema(keywords, options, (value, path) => {
    const text = typeof value === 'bigint' || Number.isInteger(value) ? String(value) : value;
    return typeof text === 'string' && expression.test(text) ? text : not(value, path, 'a quantity like 100m, 2 or 128Mi');
  });
}

function array<S extends Schema<any>>(items: S, options: ArrayOptions<Infer<S>> = {}): Schema<Infer<S>[]> {
  const { minItems, maxItems, listType, listMapKeys } = options;
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
    checkCount(value.length, minItems, maxItems, path, 'item');
    const list = value.map((item, index): Infer<S> => items.read(item, `${path}[${index}]`));
    if (listType === 'set') {
      checkDistinct(list, path, '');
    } else if (listType === 'map' && listMapKeys !== undefined) {
      const keys = list.map((item) => listMapKeys.map((key) => item[key]));
      checkDistinct(keys.length > 0 && listMapKeys.length === 1 ? keys.flat() : keys, path, `.${listMapKeys.join('+')}`);
    }
    return list;
  });
}

function checkDistinct(values: readonly unknown[], path: string, field: string): void {
  const seen = new Set<string>();
  values.forEach((value, index) => {
    const text = stringify(value);
    if (seen.has(text)) {
      throw invalid(`${path}[${index}]${field}`, `${shown(value)} is given twice`);
    }
    seen.add(text);
  });
}

function map<S extends Schema<any>>(values: S, options: MapOptions<Infer<S>> = {}): Schema<Record<string, Infer<S>>> {
  const { minProperties, maxProperties } = options;
  const bounds = pick(options, ['minProperties', 'maxProperties']);
  const keywords = { type: 'object', additionalProperties: values.keywords as JsonObject, ...bounds };
  return new Schema(keywords, options as Options<unknown>, (value, path) => {
    if (!isObject(value)) {
      not(value, path, 'an object');
    }
    const entries = Object.entries(value);
    checkCount(entries.length, minProperties, maxProperties, path, 'field');
    return Object.fromEntries(entries.map(([key, value]): [string, Infer<S>] => [key, values.read(value, `${path}.${key}`)]));
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
