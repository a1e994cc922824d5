/** Failures of a call. */
import { milliseconds } from './duration.js';
/**
 * Why there is no response. Throw one that {@link invalid}, {@link retry} or {@link failed} makes; the host then writes and deletes
 * nothing. Every other error that is thrown becomes `failed`, with its message, and its stack goes to the host's log.
 */
export class Failure extends Error {
    /** Always `Failure`. */
    name = 'Failure';
    /** Whether the spec is invalid, the plugin waits, or the call failed. */
    type;
    /** Milliseconds until the host calls again; only of a `retry`. */
    after;
    /** @internal */
    constructor(type, message, after) {
        super(message);
        this.type = type;
        this.after = after;
    }
    /** @internal */
    toContract() {
        return this.type === 'retry'
            ? { tag: 'retry', val: { message: this.message, after: BigInt(this.after ?? 0) } }
            : { tag: this.type, val: this.message };
    }
}
/**
 * The parent's spec is invalid. The field is named from the root (`spec.ports[1].name`), and the message states what is wrong and
 * what would be valid: users read both in the parent's condition (`Stalled=True, reason=InvalidSpec`). The host does not call again
 * before the parent changes.
 */
export function invalid(field, message) {
    return new Failure('invalid', field === '' ? message : `${field}: ${message}`);
}
/** The plugin waits for something, which the message names: the host calls again after this time, at least one second. */
export function retry(message, after) {
    return new Failure('retry', message, milliseconds(after));
}
/** Any other failure: the host calls again with exponential backoff. */
export function failed(message) {
    return new Failure('failed', message);
}
