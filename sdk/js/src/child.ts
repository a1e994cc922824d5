/** Children, and how the host treats them. */

import { checkFields, json, optionalText, text } from './checks.js';
import type * as contract from './contract.js';
import { kindOf, type Kind, type KubernetesObject } from './kinds.js';

/** Which child. A live object is one too. */
export interface ChildRef {
  /** The kind, in any version that is served. */
  readonly kind: Kind<any>;
  /** The namespace. The default is the parent's, or none for a child of a cluster-scoped kind. */
  readonly namespace?: string | undefined;
  /** The name. */
  readonly name: string;
}

/**
 * How the host changes existing children to their desired state: by server-side apply in place; by deleting and recreating them; not at
 * all, so that a user deletes a child to update it; or one child at a time, in the order of the response.
 */
export type UpdateStrategy = 'apply' | 'recreate' | 'on-delete' | Rolling;

/** An update of one child at a time. */
export interface Rolling {
  /**
   * Types of the conditions that must be True in a changed child before the next child changes. Without any, the child must be ready
   * ({@link LiveObject.readiness}).
   */
  rolling: readonly string[];
  /** Whether children are recreated instead of updated in place. */
  recreate?: boolean | undefined;
}

/** How the host treats one child; {@link childWith} sets it. */
export interface ChildOptions {
  /**
   * Children of a stage are created, and changed after their desired state changed, once all children of lower stages are ready. The
   * default is 0, the first stage.
   */
  stage?: number | undefined;
  /**
   * Whether the child stays when its parent is deleted, like data. It gets no ownerReference. A later parent of the same plugin, kind,
   * namespace and name adopts it.
   */
  retain?: boolean | undefined;
  /**
   * Whether the host takes the fields that another field manager owns, as an autoscaler owns `spec.replicas`. Otherwise such a field is a
   * conflict.
   */
  takeOver?: boolean | undefined;
  /**
   * The child is created once for each value of this text, whatever deletes it: a Job that has run must not run again. A new text deletes
   * an existing child and creates it again. Not together with {@link retain}.
   */
  once?: string | undefined;
  /** Whether the child is ready, if the plugin knows better than {@link LiveObject.readiness}. */
  ready?: boolean | undefined;
  /** How the host changes this child. The default is what the rule of its kind says. */
  update?: UpdateStrategy | undefined;
  /**
   * A child of the same kind that is no longer desired, and may be in the way of this one because both need what only one can have (a node
   * port). The host deletes it first if the API server refuses this one for that.
   */
  replaces?: ChildRef | undefined;
}

const FIELDS = { stage: true, retain: true, takeOver: true, once: true, ready: true, update: true, replaces: true } as const;

/** JSON has no symbols, and copies of an object keep them. */
const OPTIONS = Symbol('options');

type WithOptions = KubernetesObject & { [OPTIONS]?: ChildOptions };

/**
 * A child with options, besides those that it has.
 *
 * ```ts
 * return { children: [childWith(claim, { retain: true }), childWith(deployment, { stage: 1 })] };
 * ```
 */
export function childWith<T extends KubernetesObject>(child: T, options: ChildOptions): T {
  checkFields(options, FIELDS, 'the options of a child');
  return { ...child, [OPTIONS]: { ...(child as WithOptions)[OPTIONS], ...options } };
}

/** @internal */
export function childToContract(child: KubernetesObject, path: string): contract.DesiredChild {
  const { stage = 0, retain = false, takeOver = false, once, ready, update, replaces } = (child as WithOptions)[OPTIONS] ?? {};
  if (!Number.isInteger(stage) || stage < 0 || stage >= 2 ** 32) {
    throw new TypeError(`${path}: ${stage} is not a stage: a whole number, 0 or more`);
  }
  const named = [child.kind, child.metadata?.name].filter(Boolean).join(' ');
  return {
    object: json(child, named === '' ? path : `${path} (${named})`),
    stage,
    retain,
    takeOver,
    create: once === undefined ? { tag: 'always' } : { tag: 'once', val: text(once, `${path}: once`) },
    ready,
    update: update && updateToContract(update),
    replaces: replaces && refToContract(replaces, `${path}: replaces`),
  };
}

/** @internal */
export function updateToContract(update: UpdateStrategy): contract.UpdateStrategy {
  return typeof update === 'string'
    ? { tag: update }
    : { tag: 'rolling', val: { recreate: update.recreate ?? false, conditions: [...update.rolling] } };
}

/** @internal */
export function refToContract({ kind, namespace, name }: ChildRef, path: string): contract.ChildRef {
  return {
    kind: kindOf(kind, `${path}.kind`),
    namespace: optionalText(namespace, `${path}.namespace`),
    name: text(name, `${path}.name`),
  };
}
