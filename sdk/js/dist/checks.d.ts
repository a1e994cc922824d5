/** Checks of what a plugin without static types gives: the bindings would trap, or ignore it. */
/** Throws if an object has a field that is misspelt. The compiler does not find it in what a function returns. */
export declare function checkFields<T extends object>(value: T, fields: Readonly<Record<keyof T, true>>, what: string): void;
/** Returns a string. */
export declare function text(value: unknown, what: string): string;
/** Returns a string, or undefined. */
export declare function optionalText(value: unknown, what: string): string | undefined;
/** Returns a document. */
export declare function json(value: unknown, what: string): Uint8Array;
