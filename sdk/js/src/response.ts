/** The response of a call, typed. */

import type * as contract from './contract.js';
import { milliseconds, type Duration } from './duration.js';
import { encode, stringify } from './json.js';
import { kindOf, type Kind, type KubernetesObject } from './kinds.js';

/** The desired state for one parent. */
export interface Response<Status = any> {
  /**
   * All desired children, as plain objects with `apiVersion`, `kind` and `metadata.name`. A live child that is missing here is
   * deleted. Items that are undefined, null, false or `''` are skipped: `spec.host && ingress` is an optional child. Fields of
   * children that are undefined or null are left out.
   */
  children?: readonly (KubernetesObject | undefined | null | false | '')[] | undefined;
  /**
   * The plugin's part of the parent's status, with all of its fields. Without it and without conditions, the status stays as it is.
   * Conditions alone remove its other fields.
   */
  status?: Status | undefined;
  /**
   * Conditions of the parent's status, all of them: they are returned together with {@link status}. A condition of type `Ready`
   * replaces the host's when all children are applied. The host sets `lastTransitionTime` and `observedGeneration`.
   */
  conditions?: readonly Condition[] | undefined;
  /**
   * The time until the next reconcile, at least one second. Without it, the resync interval. Changes of the parent, its children and
   * its related objects reconcile earlier.
   */
  requeue?: Duration | undefined;
  /** Kubernetes events on the parent. */
  events?: readonly Event[] | undefined;
  /** Related objects that the response depends on. Every response has all of them, also those that the host has served. */
  requirements?: readonly Requirement[] | undefined;
  /** Ends a finalizing parent: all is cleaned up, and the host removes the finalizer ({@link Request.isFinalizing}). */
  finalized?: boolean | undefined;
}

/** One condition of the parent's status. */
export interface Condition {
  /** The type, in CamelCase: `Ready`. */
  type: string;
  /** The status. */
  status: boolean | 'True' | 'False' | 'Unknown';
  /** Why the condition has this status, in CamelCase. */
  reason: string;
  /** Details for users. */
  message: string;
}

/** A Kubernetes event on the parent, about a change that users want to know. An event in every call is noise. */
export interface Event {
  /** An expected change, or one that may need action. */
  type: 'Normal' | 'Warning';
  /** The reason in CamelCase: `ScaledUp`. */
  reason: string;
  /** Details for users. */
  message: string;
}

/**
 * Related objects that a response depends on, without owning them. {@link Request.related} reads them. The host watches them, and
 * reconciles the parent when they change.
 */
export type Requirement = {
  /** Chosen by the plugin, unique in one response. */
  id: string;
  /** One of the kinds in {@link Definition.related}. */
  kind: Kind<any>;
  /** The namespace. The default is the parent's; a cluster-scoped parent must name one for namespaced kinds. */
  namespace?: string | undefined;
} & (
  | {
      /** The object of this name. */
      name: string;
      /** Absent. */
      labels?: undefined;
    }
  | {
      /** The objects that match a label selector in kubectl's syntax; `''` selects all. */
      labels: string;
      /** Absent. */
      name?: undefined;
    }
);

/**
 * A child that is kept when its parent is deleted, like data. It gets no ownerReference. A later parent of the same plugin, kind,
 * namespace and name adopts it.
 */
export function retain<T extends KubernetesObject>(child: T): T {
  return annotated(child, 'windlass.dev/retain');
}

/**
 * A child of which the host forces ownership of the fields that another field manager owns, as an autoscaler owns `spec.replicas`,
 * once. Otherwise such a field is a conflict.
 */
export function forceOwnership<T extends KubernetesObject>(child: T): T {
  return annotated(child, 'windlass.dev/take-over');
}

/** The host reads options of a child from annotations, and removes these. */
function annotated<T extends KubernetesObject>(child: T, annotation: string): T {
  const annotations = { ...child.metadata?.annotations, [annotation]: 'true' };
  return { ...child, metadata: { ...child.metadata, annotations } };
}

/** The compiler does not find a misspelt field in what a function returns. */
const FIELDS: Readonly<Record<keyof Response, true>> = {
  children: true,
  status: true,
  conditions: true,
  requeue: true,
  events: true,
  requirements: true,
  finalized: true,
};

/** @internal */
export function toContract(response: Response): contract.Response {
  const unknown = Object.keys(response).find((field) => !Object.hasOwn(FIELDS, field));
  if (unknown !== undefined) {
    throw new TypeError(`a response has no field ${unknown}`);
  }
  return {
    children: (response.children ?? []).flatMap((child, index) => (child ? [childJson(child, index)] : [])),
    status: statusJson(response.status ?? undefined, response.conditions ?? []),
    requeue: response.requeue === undefined ? undefined : BigInt(milliseconds(response.requeue)),
    events: (response.events ?? []).map(({ type, reason, message }, index) => ({
      eventType: type === 'Warning' ? 'warning' : 'normal',
      reason: text(reason, `events[${index}].reason`),
      message: text(message, `events[${index}].message`),
    })),
    requirements: (response.requirements ?? []).map((one, index) => requirement(one, `requirements[${index}]`)),
    finalized: response.finalized === true,
    extensions: [],
  };
}

/** Checks a string of a plugin without static types: the bindings would trap. */
function text(value: unknown, what: string): string {
  if (typeof value !== 'string') {
    throw new TypeError(`${what} is ${value} instead of a string`);
  }
  return value;
}

function childJson(child: KubernetesObject, index: number): Uint8Array {
  const missing = [
    ['apiVersion', child.apiVersion],
    ['kind', child.kind],
    ['metadata.name', child.metadata?.name],
  ].find(([, value]) => !value);
  if (missing !== undefined) {
    throw new TypeError(`children[${index}] has no ${missing[0]}`);
  }
  return attempt(`children[${index}] (${child.kind} ${child.metadata?.name})`, child);
}

function statusJson(status: unknown, conditions: readonly Condition[]): Uint8Array | undefined {
  if (status === undefined && conditions.length === 0) {
    return undefined;
  }
  if (status !== undefined && (typeof status !== 'object' || Array.isArray(status))) {
    throw new TypeError(`the status is ${stringify(status)} instead of an object`);
  }
  const word = (status: Condition['status']) => (typeof status === 'boolean' ? (status ? 'True' : 'False') : status);
  const written = conditions.map(({ type, status, reason, message }) => ({ type, status: word(status), reason, message }));
  return attempt('the status', { ...status, ...(written.length > 0 ? { conditions: written } : {}) });
}

function attempt(what: string, value: unknown): Uint8Array {
  try {
    return encode(value);
  } catch (error) {
    throw new TypeError(`${what} is not JSON: ${error instanceof Error ? error.message : error}`);
  }
}

function requirement({ id, kind, namespace, name, labels }: Requirement, path: string): contract.Requirement {
  const [tag, val] = labels === undefined ? (['name', name] as const) : (['labels', labels] as const);
  return {
    id: text(id, `${path}.id`),
    kind: kindOf(kind, `${path}.kind`),
    namespace: namespace === undefined ? undefined : text(namespace, `${path}.namespace`),
    select: { tag, val: text(val, `${path}.${tag}`) },
  };
}
