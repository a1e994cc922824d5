/** A checksum of values, for annotations. */
/**
 * A short text that is the same for the same values, in every language: the first 16 hexadecimal digits of SHA-256 over the JSON list of
 * the values, with sorted keys and without spaces. As an annotation of a Pod template, it restarts the Pods when a ConfigMap or a Secret
 * changes that the plugin returns.
 *
 * ```ts
 * metadata: { annotations: { 'example.com/config': checksum(configMap.data) } }
 * ```
 *
 * @throws {TypeError} if a value is not JSON.
 */
export declare function checksum(...values: unknown[]): string;
