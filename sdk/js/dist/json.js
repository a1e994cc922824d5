/**
 * JSON as the contract has it: bytes in UTF-8, with whole numbers kept exact.
 *
 * A whole number that a JavaScript number cannot hold exactly (beyond ±(2⁵³ − 1)) is read as a `bigint`, and a `bigint` is
 * written as a number. The API server keeps such numbers exact as well; a decimal number is a double there, as it is here.
 */
const decoder = new TextDecoder();
const encoder = new TextEncoder();
/** Reads a document. */
export function decode(bytes) {
    return parse(decoder.decode(bytes));
}
/**
 * Writes a document. Fields that are null or undefined are left out at any depth: the API server drops them too, so sending them
 * would make an object differ from its live state in every reconcile.
 */
export function encode(value) {
    return encoder.encode(stringify(value));
}
/** A string or a number of a document. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
/** Reads a document. */
export function parse(text) {
    // Fewer digits are always exact. The test is much cheaper than the second reading, and nearly always false.
    if (!/\d{16}/.test(text)) {
        return JSON.parse(text);
    }
    const mark = unusedMark(text);
    const marked = text.replace(TOKEN, (token) => /^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token)) ? `"${mark}${token}"` : token);
    return JSON.parse(marked, (_, value) => typeof value === 'string' && value.startsWith(mark) ? BigInt(value.slice(mark.length)) : value);
}
/** Writes a document as text; see {@link encode}. */
export function stringify(value, indent) {
    let hasIntegers = false;
    const text = write(value, indent, () => {
        hasIntegers = true;
        return '';
    });
    if (!hasIntegers) {
        return text;
    }
    const mark = unusedMark(text);
    const marked = write(value, indent, (integer) => `${mark}${integer}`);
    return marked.replace(new RegExp(`"${mark}(-?\\d+)"`, 'g'), '$1');
}
function write(value, indent, integer) {
    const replace = (field, value) => {
        switch (typeof value) {
            case 'bigint':
                return integer(value);
            case 'number':
                if (!Number.isFinite(value)) {
                    throw new TypeError(`${field || 'the value'} is ${value}, which JSON cannot express`);
                }
                return value;
            case 'function':
            case 'symbol':
                throw new TypeError(`${field || 'the value'} is a ${typeof value}, which JSON cannot express`);
            default:
                // In a list, JSON.stringify writes undefined as null.
                return value ?? undefined;
        }
    };
    return JSON.stringify(value, replace, indent) ?? 'null';
}
/** A text that occurs nowhere in a document. */
function unusedMark(text) {
    let mark = 'integer:';
    while (text.includes(mark)) {
        mark += ':';
    }
    return mark;
}
