/** Checks of what a plugin without static types gives: the bindings would trap, or ignore it. */
import { encode } from './json.js';
/** Throws if an object has a field that is misspelt. The compiler does not find it in what a function returns. */
export function checkFields(value, fields, what) {
    const unknown = Object.keys(value).find((field) => !Object.hasOwn(fields, field));
    if (unknown !== undefined) {
        throw new TypeError(`${unknown} is not a field of ${what}`);
    }
}
/** Returns a string. */
export function text(value, what) {
    if (typeof value !== 'string') {
        throw new TypeError(`${what} is ${value} instead of a string`);
    }
    return value;
}
/** Returns a string, or undefined. */
export function optionalText(value, what) {
    return value === undefined ? undefined : text(value, what);
}
/** Returns a document. */
export function json(value, what) {
    try {
        return encode(value);
    }
    catch (error) {
        throw new TypeError(`${what} is not JSON: ${error instanceof Error ? error.message : error}`);
    }
}
