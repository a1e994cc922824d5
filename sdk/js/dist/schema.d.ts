/**
 * Types of specs, statuses and configurations: one declaration gives the schema of the CRD, the conversion of a value that was read, and
 * the static type ({@link Infer}).
 */
import { type JsonObject, type JsonValue } from './json.js';
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
/** A type of values; `t` makes them. */
export declare class Schema<T> {
    #private;
    /** Only for the compiler. */
    readonly [valueType]: T;
    /** The structural schema, as in a CRD. */
    readonly keywords: Readonly<JsonObject>;
    /** Whether the value may not be absent: it is not optional and has no default. */
    readonly isRequired: boolean;
    /**
     * Converts a value that was read from JSON, and returns it with defaults and without unknown fields. An absent value, as null, is
     * `undefined`, also where the schema requires one: the host and the API server check values, and this does not.
     *
     * @param path the path of the value, for the message: `spec`.
     * @throws {Failure} `invalid`, naming the field from the root, if JSON of this type cannot be converted.
     */
    read(value: JsonValue | undefined, path: string): T;
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
export type InferProperties<P extends Properties> = Flat<{
    [K in keyof P as P[K] extends Optional<any> ? never : K]: Infer<P[K]>;
} & {
    [K in keyof P as P[K] extends Optional<any> ? K : never]?: Infer<P[K]>;
}>;
type Flat<T> = {
    [K in keyof T]: T[K];
};
declare function string(options?: StringOptions): Schema<string>;
declare function enumeration<const V extends string>(values: readonly V[], options?: Options<NoInfer<V>>): Schema<V>;
declare function integer(options?: IntegerOptions): Schema<number>;
declare function bigint(options?: NumberOptions<bigint>): Schema<bigint>;
declare function number(options?: NumberOptions): Schema<number>;
declare function boolean(options?: Options<boolean>): Schema<boolean>;
declare function intOrString(options?: Options<number | string>): Schema<number | string>;
declare function quantity(options?: Options<string>): Schema<string>;
declare function array<S extends Schema<any>>(items: S, options?: ArrayOptions<Infer<S>>): Schema<Infer<S>[]>;
declare function map<S extends Schema<any>>(values: S, options?: MapOptions<Infer<S>>): Schema<Record<string, Infer<S>>>;
declare function object<P extends Properties>(properties: P, options?: ObjectOptions<InferProperties<P>>): Schema<InferProperties<P>>;
declare function json(options?: Options<JsonValue>): Schema<any>;
declare function optional<S extends Schema<any>>(schema: S): Optional<Infer<S>>;
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
export declare const t: Readonly<{
    /** A string. */
    string: typeof string;
    /** One of several strings. */
    enum: typeof enumeration;
    /** A whole number within ±(2⁵³ − 1). */
    integer: typeof integer;
    /** A whole number of 64 bits, as a bigint: for numbers that may be beyond ±(2⁵³ − 1). */
    bigint: typeof bigint;
    /** A number. */
    number: typeof number;
    /** True or false. */
    boolean: typeof boolean;
    /** A whole number or a string, like a Service's `targetPort`. */
    intOrString: typeof intOrString;
    /** A quantity like `100m`, `2` or `128Mi`, as a string with the user's notation. {@link Quantity} compares them. */
    quantity: typeof quantity;
    /** A list. */
    array: typeof array;
    /** An object with any names of fields, like labels. */
    map: typeof map;
    /** An object with these fields. */
    object: typeof object;
    /** Any value, which the API server stores as it is. Whole numbers beyond ±(2⁵³ − 1) in it are bigints. */
    json: typeof json;
    /** A value that may be absent or null; both are read as `undefined`. A value with a default needs no `optional`. */
    optional: typeof optional;
}>;
export {};
