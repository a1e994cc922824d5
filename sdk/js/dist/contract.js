/**
 * The types of the contract `windlass:plugin@0.2.0-rc.1` (wit/), as componentize-js maps them: `u64` is a bigint, `list<u8>` a
 * Uint8Array, an absent `option` undefined, and the error of a `result` is thrown. A plugin needs none of them.
 */
export {};
