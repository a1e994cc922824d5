/** Failures of a call. */

import type * as contract from './contract.js';

/**
 * Why there is no response. Throw one that {@link invalid} or {@link failed} makes; the host then writes and deletes nothing. Every other
 * error that is thrown becomes `failed`, with its message, and its stack goes to the host's log.
 */
export class Failure extends Error {
  /** Always `Failure`. */
  override readonly name = 'Failure';
  /** Whether the spec is invalid, or the call failed. */
  readonly type: 'invalid' | 'failed';
  /** The field that is invalid; undefined for the parent as a whole. It begins the `message` too. */
  readonly field: string | undefined;
  readonly #problem: string;

  /** @internal */
  constructor(type: Failure['type'], problem: string, field?: string) {
    super(field === undefined ? problem : `${field}: ${problem}`);
    this.type = type;
    this.field = field;
    this.#problem = problem;
  }

  /** @internal */
  toContract(): contract.Failure {
    return this.type === 'invalid' ? { tag: 'invalid', val: this.toInvalid() } : { tag: 'failed', val: this.#problem };
  }

  /** @internal */
  toInvalid(): contract.Invalid {
    return { field: this.field, message: this.#problem };
  }
}

/**
 * The parent's spec is invalid. The field is named from the root (`spec.ports[1].name`; `''` is the parent as a whole), and the message
 * states what is wrong and what would be valid: users read both in the parent's condition (`Stalled=True, reason=InvalidSpec`). The host
 * does not call again before the parent changes.
 */
export function invalid(field: string, message: string): Failure {
  return new Failure('invalid', message, field === '' ? undefined : field);
}

/** Any other failure: the host calls again with exponential backoff. */
export function failed(message: string): Failure {
  return new Failure('failed', message);
}
