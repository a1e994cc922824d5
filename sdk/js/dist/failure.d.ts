/** Failures of a call. */
/**
 * Why there is no response. Throw one that {@link invalid} or {@link failed} makes; the host then writes and deletes nothing. Every other
 * error that is thrown becomes `failed`, with its message, and its stack goes to the host's log.
 */
export declare class Failure extends Error {
    #private;
    /** Always `Failure`. */
    readonly name = "Failure";
    /** Whether the spec is invalid, or the call failed. */
    readonly type: 'invalid' | 'failed';
    /** The field that is invalid; undefined for the parent as a whole. It begins the `message` too. */
    readonly field: string | undefined;
}
/**
 * The parent's spec is invalid. The field is named from the root (`spec.ports[1].name`; `''` is the parent as a whole), and the message
 * states what is wrong and what would be valid: users read both in the parent's condition (`Stalled=True, reason=InvalidSpec`). The host
 * does not call again before the parent changes.
 */
export declare function invalid(field: string, message: string): Failure;
/** Any other failure: the host calls again with exponential backoff. */
export declare function failed(message: string): Failure;
