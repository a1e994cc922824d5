/**
 * Types of specs, statuses and configurations: one declaration gives the schema of the CRD, the conversion of a value that was read, and
 * the static type ({@link Infer}).
 */
import { invalid } from './failure.js';
import { stringify } from './json.js';
/** A type of values; `t` makes them. */
export class Schema {
    /** The structural schema, as in a CRD. */
    keywords;
    /** Whether the value may not be absent: it is not optional and has no default. */
    isRequired;
    #convert;
    #default;
    /** @internal */
    constructor(keywords, options, convert, isOptional = false) {
        this.#convert = convert;
        this.#default = options.default;
        this.isRequired = !isOptional && this.#default === undefined;
        if (options.description !== undefined) {
            keywords['description'] = options.description;
        }
        if (this.#default !== undefined) {
            // With the defaults of the fields in it.
            keywords['default'] = convert(this.#default, 'default');
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
    read(value, path) {
        const given = value ?? this.#default ?? undefined;
        return given === undefined ? undefined : this.#convert(given, path);
    }
    /** An optional one, of the same conversion. @internal */
    optional() {
        return new Schema({ ...this.keywords, nullable: true }, { default: this.#default }, this.#convert, true);
    }
}
/** A value in a message. */
function shown(value) {
    const text = stringify(value);
    return text.length > 100 ? `${text.slice(0, 100)}…` : text;
}
function not(value, path, what) {
    throw invalid(path, `${shown(value)} is not ${what}`);
}
/** Copies the options that are keywords. */
function pick(options, names) {
    return Object.fromEntries(names.flatMap((name) => (options[name] === undefined ? [] : [[name, options[name]]])));
}
const BOUNDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'];
/** A quantity as Kubernetes writes it. */
const QUANTITY = '^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?[0-9]+))?$';
const INT_OR_STRING = 'x-kubernetes-int-or-string';
const PRESERVE = 'x-kubernetes-preserve-unknown-fields';
function isObject(value) {
    return typeof value === 'object' && value !== null && !Array.isArray(value);
}
function string(options = {}) {
    const { pattern } = options;
    const keywords = { type: 'string', ...pick(options, ['minLength', 'maxLength', 'format']) };
    if (pattern !== undefined) {
        keywords['pattern'] = pattern instanceof RegExp ? pattern.source : pattern;
    }
    return new Schema(keywords, options, asString);
}
function asString(value, path) {
    return typeof value === 'string' ? value : not(value, path, 'a string');
}
function enumeration(values, options = {}) {
    return new Schema({ type: 'string', enum: [...values] }, options, (value, path) => asString(value, path));
}
function integer(options = {}) {
    const { format = 'int64' } = options;
    return new Schema({ type: 'integer', format, ...pick(options, BOUNDS) }, options, (value, path) => {
        const whole = asWhole(value, path);
        return Number.isSafeInteger(whole)
            ? whole
            : not(whole, path, `between ${Number.MIN_SAFE_INTEGER} and ${Number.MAX_SAFE_INTEGER}`);
    });
}
function bigint(options = {}) {
    const keywords = { type: 'integer', format: 'int64', ...pick(options, BOUNDS) };
    return new Schema(keywords, options, (value, path) => BigInt(asWhole(value, path)));
}
function asWhole(value, path) {
    return typeof value === 'bigint' || Number.isInteger(value) ? value : not(value, path, 'a whole number');
}
function number(options = {}) {
    return new Schema({ type: 'number', format: 'double', ...pick(options, BOUNDS) }, options, (value, path) => typeof value === 'number' || typeof value === 'bigint' ? Number(value) : not(value, path, 'a number'));
}
function boolean(options = {}) {
    return new Schema({ type: 'boolean' }, options, (value, path) => typeof value === 'boolean' ? value : not(value, path, 'true or false'));
}
function intOrString(options = {}) {
    return new Schema({ [INT_OR_STRING]: true }, options, (value, path) => typeof value === 'string' || Number.isSafeInteger(value)
        ? value
        : not(value, path, 'a whole number or a string'));
}
function quantity(options = {}) {
    // The API server estimates the cost of CEL rules by the length: without it, a rule on a list of quantities is rejected.
    const keywords = { [INT_OR_STRING]: true, maxLength: 64, pattern: QUANTITY };
    return new Schema(keywords, options, (value, path) => {
        const text = typeof value === 'bigint' || Number.isInteger(value) ? String(value) : value;
        return typeof text === 'string' ? text : not(value, path, 'a quantity like 100m, 2 or 128Mi');
    });
}
function array(items, options = {}) {
    const { listType, listMapKeys } = options;
    const keywords = { type: 'array', items: items.keywords, ...pick(options, ['minItems', 'maxItems']) };
    if (listType !== undefined) {
        keywords['x-kubernetes-list-type'] = listType;
    }
    if (listMapKeys !== undefined) {
        keywords['x-kubernetes-list-map-keys'] = [...listMapKeys];
    }
    return new Schema(keywords, options, (value, path) => {
        if (!Array.isArray(value)) {
            not(value, path, 'a list');
        }
        return value.map((item, index) => items.read(item, `${path}[${index}]`));
    });
}
function map(values, options = {}) {
    const bounds = pick(options, ['minProperties', 'maxProperties']);
    const keywords = { type: 'object', additionalProperties: values.keywords, ...bounds };
    return new Schema(keywords, options, (value, path) => {
        if (!isObject(value)) {
            not(value, path, 'an object');
        }
        const entries = Object.entries(value).map(([key, value]) => [key, values.read(value, `${path}.${key}`)]);
        return Object.fromEntries(entries);
    });
}
function object(properties, options = {}) {
    const fields = Object.entries(properties);
    const required = fields.filter(([, schema]) => schema.isRequired).map(([name]) => name);
    const keywords = { type: 'object' };
    if (fields.length > 0) {
        keywords['properties'] = Object.fromEntries(fields.map(([name, schema]) => [name, schema.keywords]));
    }
    if (required.length > 0) {
        keywords['required'] = required;
    }
    if (options.preserveUnknownFields) {
        keywords[PRESERVE] = true;
    }
    return new Schema(keywords, options, (value, path) => {
        if (!isObject(value)) {
            not(value, path, 'an object');
        }
        const read = [];
        for (const [name, schema] of fields) {
            const field = schema.read(Object.hasOwn(value, name) ? value[name] : undefined, `${path}.${name}`);
            if (field !== undefined) {
                read.push([name, field]);
            }
        }
        if (options.preserveUnknownFields) {
            read.push(...Object.entries(value).filter(([name]) => !Object.hasOwn(properties, name)));
        }
        return Object.fromEntries(read);
    });
}
function json(options = {}) {
    return new Schema({ [PRESERVE]: true }, options, (value) => value);
}
function optional(schema) {
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
