/** Failures of a call. */
import { type Duration } from './duration.js';
/**
 * Why there is no response. Throw one that {@link invalid}, {@link retry} or {@link failed} makes; the host then writes and deletes
 * nothing. Every other error that is thrown becomes `failed`, with its message, and its stack goes to the host's log.
 */
export declare class Failure extends Error {
    /** Always `Failure`. */
    readonly name = "Failure";
    /** Whether the spec is invalid, the plugin waits, or the call failed. */
    readonly type: 'invalid' | 'retry' | 'failed';
    /** Milliseconds until the host calls again; only of a `retry`. */
    readonly after: number | undefined;
}
/**
 * The parent's spec is invalid. The field is named from the root (`spec.ports[1].name`), and the message states what is wrong and
 * what would be valid: users read both in the parent's condition (`Stalled=True, reason=InvalidSpec`). The host does not call again
 * before the parent changes.
 */
export declare function invalid(field: string, message: string): Failure;
/** The plugin waits for something, which the message names: the host calls again after this time, at least one second. */
export declare function retry(message: string, after: Duration): Failure;
/** Any other failure: the host calls again with exponential backoff. */
export declare function failed(message: string): Failure;
