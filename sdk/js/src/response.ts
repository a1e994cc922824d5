/** The response of a call, typed. */

import { checkFields, json, optionalText, text } from './checks.js';
import { childToContract, refToContract, type ChildRef } from './child.js';
import type * as contract from './contract.js';
import { milliseconds, type Duration } from './duration.js';
import { stringify } from './json.js';
import { kindOf, type Kind, type KubernetesObject } from './kinds.js';

/** The desired state for one parent. */
export interface Response<Status = any> {
  /**
   * All desired children, as plain objects with `apiVersion`, `kind` and `metadata.name`; {@link childWith} gives them options. A live
   * child that is neither here nor in {@link keep} is deleted. Items that are undefined, null, false or `''` are skipped:
   * `spec.host && ingress` is an optional child. Fields of children that are undefined or null are left out.
   */
  children?: readonly (KubernetesObject | undefined | null | false | '')[] | undefined;
  /**
   * Live children that the host neither changes nor deletes: `'all'`, or these. Undefined, null and false are skipped. Not together with
   * {@link finalized}.
   */
  keep?: 'all' | readonly (ChildRef | undefined | null | false)[] | undefined;
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
   * What the plugin waits for, for users: the parent gets the reason `Waiting`. Everything else in the response is carried out;
   * {@link wait} makes a response that changes nothing.
   */
  waiting?: string | undefined;
  /**
   * The time until the next reconcile, at least one second. Without it, the resync interval. Changes of the parent, its children and
   * its related objects reconcile earlier.
   */
  requeue?: Duration | undefined;
  /** The time of the next reconcile, for a plugin with a {@link Definition.clock}; with {@link requeue}, the earlier of both. */
  requeueAt?: Date | undefined;
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
  /** The namespace. The default is the parent's; a cluster-scoped parent has none. */
  namespace?: string | undefined;
  /** Several namespaces, or all that the Plugin grants. Not together with `namespace`. */
  namespaces?: readonly string[] | 'all' | undefined;
  /** Whether the metadata of the objects is enough: then changes of anything else cause no call. */
  metadataOnly?: boolean | undefined;
} & (
  | {
      /** The object of this name. */
      name: string;
      /** Absent. */
      labels?: undefined;
      /** Absent. */
      labelSelector?: undefined;
    }
  | {
      /** The objects that match a label selector in kubectl's syntax; `''` selects all. */
      labels: string;
      /** Absent. */
      name?: undefined;
      /** Absent. */
      labelSelector?: undefined;
    }
  | {
      /** The objects that match a LabelSelector (`meta/v1`), as a field of the parent's spec has it; `{}` selects all. */
      labelSelector: object;
      /** Absent. */
      name?: undefined;
      /** Absent. */
      labels?: undefined;
    }
);

/**
 * A response of a plugin that waits for something, which the message names: all children and the status stay as they are, also in a
 * clean-up, and the host calls again after this time, at least one second. A plugin with requirements adds them:
 *
 * ```ts
 * return { ...wait('Secret shop-tls is missing', '30s'), requirements };
 * ```
 */
export function wait(message: string, after: Duration): Pick<Response, 'keep' | 'waiting' | 'requeue'> {
  return { keep: 'all', waiting: message, requeue: after };
}

const FIELDS = {
  children: true,
  keep: true,
  status: true,
  conditions: true,
  waiting: true,
  requeue: true,
  requeueAt: true,
  events: true,
  requirements: true,
  finalized: true,
} as const;

/** @internal */
export function toContract(response: Response): contract.Response {
  checkFields(response, FIELDS, 'a response');
  return {
    children: (response.children ?? []).flatMap((child, index) => (child ? [childToContract(child, `children[${index}]`)] : [])),
    keep: keep(response.keep ?? []),
    status: statusJson(response.status ?? undefined, response.conditions ?? []),
    waiting: optionalText(response.waiting, 'waiting'),
    requeue: response.requeue === undefined ? undefined : BigInt(milliseconds(response.requeue)),
    requeueAt: response.requeueAt === undefined ? undefined : sinceEpoch(response.requeueAt, 'requeueAt'),
    events: (response.events ?? []).map(({ type, reason, message }, index) => ({
      eventType: type === 'Warning' ? 'warning' : 'normal',
      reason: text(reason, `events[${index}].reason`),
      message: text(message, `events[${index}].message`),
    })),
    requirements: (response.requirements ?? []).map((one, index) => requirement(one, `requirements[${index}]`)),
    http: [],
    finalized: response.finalized === true,
    extensions: [],
  };
}

function keep(children: NonNullable<Response['keep']>): contract.Response['keep'] {
  if (children === 'all') {
    return { tag: 'all' };
  }
  const these = children.flatMap((child, index) => (child ? [refToContract(child, `keep[${index}]`)] : []));
  return these.length === 0 ? { tag: 'none' } : { tag: 'these', val: these };
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
  return json({ ...status, ...(written.length > 0 ? { conditions: written } : {}) }, 'the status');
}

/** @internal */
export function sinceEpoch(time: Date, name: string): bigint {
  // A time of a test is not an instance of the Date that was there before.
  const value = time?.getTime?.();
  if (!Number.isSafeInteger(value)) {
    throw new TypeError(`${name} is ${time} instead of a time`);
  }
  return BigInt(Math.max(0, value));
}

function requirement(required: Requirement, path: string): contract.Requirement {
  const { id, kind, namespace, namespaces, metadataOnly = false } = required;
  return {
    id: text(id, `${path}.id`),
    kind: kindOf(kind, `${path}.kind`),
    namespaces: namespacesOf(namespaces ?? (namespace === undefined ? undefined : [namespace]), `${path}.namespaces`),
    select: select(required, path),
    metadataOnly,
  };
}

function namespacesOf(namespaces: Requirement['namespaces'], path: string): contract.Requirement['namespaces'] {
  if (namespaces === undefined) {
    return { tag: 'of-parent' };
  }
  return namespaces === 'all' ? { tag: 'all' } : { tag: 'named', val: namespaces.map((name) => text(name, path)) };
}

function select({ name, labels, labelSelector }: Requirement, path: string): contract.Requirement['select'] {
  if (labelSelector !== undefined) {
    return { tag: 'label-selector', val: json(labelSelector, `${path}.labelSelector`) };
  }
  return labels === undefined
    ? { tag: 'name', val: text(name, `${path}.name`) }
    : { tag: 'labels', val: text(labels, `${path}.labels`) };
}
