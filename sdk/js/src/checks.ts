/** Checks of what a plugin without static types gives: the bindings would trap, or ignore it. */

import { encode } from './json.js';

/** Throws if an object has a field that is misspelt. The compiler does not find it in what a function returns. */
export function checkFields<T extends object>(value: T, fields: Readonly<Record<keyof T, true>>, what: string): void {
  const unknown = Object.keys(value).find((field) => !Object.hasOwn(fields, field));
  if (unknown !== undefined) {
    throw new TypeError(`${unknown} is not a field of ${what}`);
  }
}

/** Returns a string. */
export function text(value: unknown, what: string): string {
  if (typeof value !== 'string') {
    throw new TypeError(`${what} is ${value} instead of a string`);
  }
  return value;
}

/** Returns a string, or undefined. */
export function optionalText(value: unknown, what: string): string | undefined {
  return value === undefined ? undefined : text(value, what);
}

/** Returns a document. */
export function json(value: unknown, what: string): Uint8Array {
  try {
    return encode(value);
  } catch (error) {
    throw new TypeError(`${what} is not JSON: ${error instanceof Error ? error.message : error}`);
  }
}
