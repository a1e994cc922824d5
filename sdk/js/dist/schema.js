/**
 * Types of specs, statuses and configurations: one declaration gives the schema of the CRD, the checks of a value that was read, and
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
    #check;
    #default;
    #isOptional;
    /** @internal */
    constructor(keywords, options, check, isOptional = false) {
        this.#check = check;
        this.#isOptional = isOptional;
        this.#default = options.default;
        this.isRequired = !isOptional && this.#default === undefined;
        if (options.description !== undefined) {
            keywords['description'] = options.description;
        }
        if (this.#default !== undefined) {
            // With the defaults of the fields in it.
            keywords['default'] = check(this.#default, 'default');
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
    read(value, path) {
        const given = value ?? this.#default ?? undefined;
        if (given !== undefined) {
            return this.#check(given, path);
        }
        if (this.#isOptional) {
            return undefined;
        }
        throw invalid(path, 'is required');
    }
    /** An optional one, of the same check. @internal */
    optional() {
        return new Schema({ ...this.keywords, nullable: true }, { default: this.#default }, this.#check, true);
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
/** Counts as the API server does. */
function characters(text) {
    return [...text].length;
}
function checkCount(count, min, max, path, noun) {
    const has = `has ${count} ${noun}${count === 1 ? '' : 's'}`;
    if (min !== undefined && count < min) {
        throw invalid(path, `${has}, fewer than ${min}`);
    }
    if (max !== undefined && count > max) {
        throw invalid(path, `${has}, more than ${max}`);
    }
}
/** Checks the bounds of a number; `least` and `most` are those of the type. */
function checkBounds(value, options, path, least, most) {
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
function isMultiple(value, of) {
    if (typeof value === 'bigint' && typeof of === 'bigint') {
        return value % of === 0n;
    }
    const quotient = Number(value) / Number(of);
    return Math.abs(quotient - Math.round(quotient)) <= Number.EPSILON * Math.abs(quotient);
}
const BOUNDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'];
/** A quantity as Kubernetes writes it. */
const QUANTITY = '^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?[0-9]+))?$';
const INT_OR_STRING = 'x-kubernetes-int-or-string';
const PRESERVE = 'x-kubernetes-preserve-unknown-fields';
function isObject(value) {
    return typeof value === 'object' && value !== null && !Array.isArray(value);
}
/** RE2 reads characters, not units of UTF-16, which takes the flag `u`. */
function expressionOf(pattern) {
    try {
        return new RegExp(pattern, 'u');
    }
    catch (error) {
        throw new SyntaxError(`pattern ${pattern} cannot be checked (${error.message}); with extend: { pattern: '…' }, only the API server checks it`);
    }
}
function string(options = {}) {
    const { minLength, maxLength } = options;
    const pattern = options.pattern instanceof RegExp ? options.pattern.source : options.pattern;
    const expression = pattern === undefined ? undefined : expressionOf(pattern);
    const keywords = { type: 'string', ...pick(options, ['minLength', 'maxLength', 'format']) };
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
function enumeration(values, options = {}) {
    return new Schema({ type: 'string', enum: [...values] }, options, (value, path) => values.includes(value) ? value : not(value, path, `one of ${values.join(', ')}`));
}
function integer(options = {}) {
    const { format = 'int64' } = options;
    const [least, most] = format === 'int32' ? [-(2 ** 31), 2 ** 31 - 1] : [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];
    return new Schema({ type: 'integer', format, ...pick(options, BOUNDS) }, options, (value, path) => {
        if (typeof value !== 'bigint' && !Number.isInteger(value)) {
            not(value, path, 'a whole number');
        }
        // A bigint is beyond the bounds of the type.
        checkBounds(value, options, path, least, most);
        return value;
    });
}
function bigint(options = {}) {
    return new Schema({ type: 'integer', format: 'int64', ...pick(options, BOUNDS) }, options, (value, path) => {
        if (typeof value !== 'bigint' && !Number.isInteger(value)) {
            not(value, path, 'a whole number');
        }
        const exact = BigInt(value);
        checkBounds(exact, options, path, -(2n ** 63n), 2n ** 63n - 1n);
        return exact;
    });
}
function number(options = {}) {
    return new Schema({ type: 'number', format: 'double', ...pick(options, BOUNDS) }, options, (value, path) => {
        if (typeof value !== 'number' && typeof value !== 'bigint') {
            not(value, path, 'a number');
        }
        checkBounds(Number(value), options, path);
        return Number(value);
    });
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
    const expression = new RegExp(QUANTITY);
    // The API server estimates the cost of CEL rules by the length: without it, a rule on a list of quantities is rejected.
    const keywords = { [INT_OR_STRING]: true, maxLength: 64, pattern: QUANTITY };
    return new Schema(keywords, options, (value, path) => {
        const text = typeof value === 'bigint' || Number.isInteger(value) ? String(value) : value;
        return typeof text === 'string' && expression.test(text) ? text : not(value, path, 'a quantity like 100m, 2 or 128Mi');
    });
}
function array(items, options = {}) {
    const { minItems, maxItems, listType, listMapKeys } = options;
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
        checkCount(value.length, minItems, maxItems, path, 'item');
        const list = value.map((item, index) => items.read(item, `${path}[${index}]`));
        if (listType === 'set') {
            checkDistinct(list, path, '');
        }
        else if (listType === 'map' && listMapKeys !== undefined) {
            const keys = list.map((item) => listMapKeys.map((key) => item[key]));
            checkDistinct(keys.length > 0 && listMapKeys.length === 1 ? keys.flat() : keys, path, `.${listMapKeys.join('+')}`);
        }
        return list;
    });
}
function checkDistinct(values, path, field) {
    const seen = new Set();
    values.forEach((value, index) => {
        const text = stringify(value);
        if (seen.has(text)) {
            throw invalid(`${path}[${index}]${field}`, `${shown(value)} is given twice`);
        }
        seen.add(text);
    });
}
function map(values, options = {}) {
    const { minProperties, maxProperties } = options;
    const bounds = pick(options, ['minProperties', 'maxProperties']);
    const keywords = { type: 'object', additionalProperties: values.keywords, ...bounds };
    return new Schema(keywords, options, (value, path) => {
        if (!isObject(value)) {
            not(value, path, 'an object');
        }
        const entries = Object.entries(value);
        checkCount(entries.length, minProperties, maxProperties, path, 'field');
        return Object.fromEntries(entries.map(([key, value]) => [key, values.read(value, `${path}.${key}`)]));
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
