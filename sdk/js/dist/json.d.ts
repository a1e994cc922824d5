/**
 * JSON as the contract has it: bytes in UTF-8, with whole numbers kept exact.
 *
 * A whole number that a JavaScript number cannot hold exactly (beyond ±(2⁵³ − 1)) is read as a `bigint`, and a `bigint` is
 * written as a number. The API server keeps such numbers exact as well; a decimal number is a double there, as it is here.
 */
/** A JSON value. Large whole numbers are bigints. */
export type JsonValue = null | boolean | number | bigint | string | JsonValue[] | JsonObject;
/** A JSON object. */
export interface JsonObject {
    [field: string]: JsonValue;
}
/** Reads a document. */
export declare function decode(bytes: Uint8Array): JsonValue;
/**
 * Writes a document. Fields that are null or undefined are left out at any depth: the API server drops them too, so sending them
 * would make an object differ from its live state in every reconcile.
 */
export declare function encode(value: unknown): Uint8Array;
/** Reads a document. */
export declare function parse(text: string): JsonValue;
/** Writes a document as text; see {@link encode}. */
export declare function stringify(value: unknown, indent?: string): string;
