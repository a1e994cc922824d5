/** Admission of parents. The host does not serve this yet. */

import type * as contract from './contract.js';
import { decode, encode } from './json.js';
import type { KubernetesObject } from './kinds.js';
import { metadataOf, readConfig, readSpec, type Types } from './request.js';

/** One write of a parent, before it is stored. */
export class AdmissionRequest<Spec = any, Config = any> {
  /** The untyped request of the contract, which also has the namespace, the user's groups, and whether nothing is stored. */
  readonly raw: contract.AdmissionRequest;
  /** The object after the write; undefined for a deletion. */
  readonly object: KubernetesObject | undefined;
  /** The object before the write; undefined for a new one. */
  readonly oldObject: KubernetesObject | undefined;
  readonly #types: Types<Spec, any, Config>;

  /** @internal */
  constructor(raw: contract.AdmissionRequest, types: Types<Spec, any, Config>) {
    this.raw = raw;
    this.#types = types;
    this.object = objectOf(raw.object);
    this.oldObject = objectOf(raw.oldObject);
  }

  /** The operation. */
  get operation(): 'create' | 'update' | 'delete' {
    return this.raw.operation;
  }

  /** Whether the object is being deleted. Its finalizers must be removable then, so even an invalid object must be allowed. */
  get isBeingDeleted(): boolean {
    return this.operation === 'delete' || metadataOf(this.object ?? {}).deletionTimestamp !== undefined;
  }

  /** The name of the user who writes, as the API server authenticated it. */
  get username(): string {
    return this.raw.username;
  }

  /**
   * The spec after the write, with defaults. The API server checks it by the schema after the review: here a required field may be
   * `undefined`. One that cannot be converted denies the write, with a message that names the field.
   */
  get spec(): Spec {
    return readSpec(this.#types.spec, this.object ?? {});
  }

  /** The spec before the write, with defaults; undefined for a new object. */
  get oldSpec(): Spec | undefined {
    return this.oldObject && readSpec(this.#types.spec, this.oldObject);
  }

  /** The Plugin's `spec.config`; without one, `{}` is read. */
  get config(): Config {
    return readConfig(this.#types.config, this.raw.config);
  }
}

function objectOf(json: Uint8Array | undefined): KubernetesObject | undefined {
  return json && (decode(json) as KubernetesObject);
}

/** The response to a write: {@link allow}, {@link replace}, {@link deny} or {@link withDefaults} make it. */
export type Verdict = (
  | {
      /** The write is allowed. */
      allow: true;
    }
  | {
      /** The write is allowed, and this object is stored instead. */
      replace: KubernetesObject;
    }
  | {
      /** The write is denied, with a message for the user. */
      deny: string;
    }
) & {
  /** Warnings for the user. */
  warnings?: readonly string[];
};

/** Allows the write, with warnings for the user. */
export function allow(...warnings: string[]): Verdict {
  return { allow: true, warnings };
}

/** Allows the write, and stores this object instead, of which the spec, labels and annotations may differ. */
export function replace(object: KubernetesObject, ...warnings: string[]): Verdict {
  return { replace: object, warnings };
}

/** Denies the write, with a message for the user. To name a field, throw {@link invalid}. */
export function deny(message: string, ...warnings: string[]): Verdict {
  return { deny: message, warnings };
}

/**
 * Allows an object with the defaults of its spec. Fields that the object has stay as they are.
 *
 * @throws {Failure} `invalid`, naming the field, if the spec cannot be converted: thrown from a review, it denies the write.
 */
export function withDefaults(request: AdmissionRequest): Verdict {
  if (request.object === undefined) {
    return allow();
  }
  const given: unknown = request.object['spec'] ?? {};
  const whole = fill(given, request.spec);
  return whole === given ? allow() : replace({ ...request.object, spec: whole });
}

/** Adds the fields that are missing. Returns the value itself if none is. */
function fill(given: unknown, whole: unknown): unknown {
  if (!isObject(given) || !isObject(whole)) {
    return given;
  }
  const added = Object.entries(whole).flatMap(([name, value]): [string, unknown][] => {
    if ((Object.hasOwn(given, name) ? given[name] : undefined) == null) {
      return [[name, value]];
    }
    const filled = fill(given[name], value);
    return filled === given[name] ? [] : [[name, filled]];
  });
  return added.length === 0 ? given : Object.fromEntries([...Object.entries(given), ...added]);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** @internal */
export function verdictToContract(verdict: Verdict): contract.Verdict {
  return { decision: decisionOf(verdict), warnings: [...(verdict.warnings ?? [])] };
}

function decisionOf(verdict: Verdict): contract.Verdict['decision'] {
  if ('allow' in verdict) {
    return { tag: 'allow' };
  }
  return 'deny' in verdict ? { tag: 'deny', val: { message: verdict.deny } } : { tag: 'replace', val: encode(verdict.replace) };
}
