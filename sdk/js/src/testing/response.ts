/** Responses in tests: parsed, and as the answers of golden cases have them. */

import type { ChildOptions, ChildRef, UpdateStrategy } from '../child.js';
import type * as contract from '../contract.js';
import { decode } from '../json.js';
import type { KubernetesObject, ObjectMeta } from '../kinds.js';
import type { Event } from '../response.js';
import type { HostCalls } from './host.js';

/** A desired child. */
export interface Child extends KubernetesObject {
  /** As in `apps/v1`. */
  apiVersion: string;
  /** As in `Deployment`. */
  kind: string;
  /** The metadata. */
  metadata: ObjectMeta & Named;
}

/** What has a name. */
export interface Named {
  /** The name. */
  name: string;
}

/** The response of a plugin with parsed JSON, and the calls of the host's functions. */
export interface TestResponse extends HostCalls {
  /** All desired children, in the plugin's order. */
  children: Child[];
  /** The options of each child that are not the default, in the same order. */
  options: ChildOptions[];
  /** Live children that stay as they are. */
  keep: 'all' | ChildRef[];
  /** The plugin's part of the status, with its conditions. */
  status: any;
  /** What the plugin waits for. */
  waiting: string | undefined;
  /** Milliseconds until the next reconcile. */
  requeue: number | undefined;
  /** The time of the next reconcile. */
  requeueAt: Date | undefined;
  /** Events on the parent. */
  events: Event[];
  /** Related objects that the response depends on. */
  requirements: contract.Requirement[];
  /** Whether the host may remove the finalizer. */
  finalized: boolean;
}

/** A response with parsed JSON. */
export type Parsed = Omit<TestResponse, keyof HostCalls>;

/** Parses a response. */
export function parsed(response: contract.Response): Parsed {
  const { keep, requeue, requeueAt } = response;
  return {
    children: response.children.map(({ object }) => decode(object) as any),
    options: response.children.map(optionsOf),
    keep: keep.tag === 'all' ? 'all' : keep.tag === 'these' ? keep.val : [],
    status: response.status && decode(response.status),
    waiting: response.waiting,
    requeue: requeue === undefined ? undefined : Number(requeue),
    requeueAt: requeueAt === undefined ? undefined : new Date(Number(requeueAt)),
    events: response.events.map(({ eventType, reason, message }) => ({
      type: eventType === 'normal' ? 'Normal' : 'Warning',
      reason,
      message,
    })),
    requirements: response.requirements,
    finalized: response.finalized,
  };
}

function optionsOf({ stage, retain, takeOver, create, ready, update, replaces }: contract.DesiredChild): ChildOptions {
  const once = create.tag === 'once' ? create.val : undefined;
  const options = {
    stage: stage || undefined,
    retain: retain || undefined,
    takeOver: takeOver || undefined,
    ready,
    update: update && updateOf(update),
    once,
    replaces,
  };
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

/** The update strategy as a plugin writes it. */
export function updateOf(update: contract.UpdateStrategy): UpdateStrategy {
  return update.tag === 'rolling' ? { rolling: update.val.conditions, recreate: update.val.recreate } : update.tag;
}

/** A response without its children, as a golden answer has it. Empty fields may be there. */
export function written(response: Parsed): Record<string, unknown> {
  const { keep, requeueAt } = response;
  return {
    options: response.options.map(optionsDocument),
    keep: keep === 'all' ? keep : keep.length > 0 ? { these: keep.map(reference) } : undefined,
    waiting: response.waiting,
    status: response.status,
    requeueMs: response.requeue,
    // The host has no time 0 here: both are long past.
    requeueAtMs: requeueAt && Math.max(1, requeueAt.getTime()),
    events: response.events,
    requirements: response.requirements.map(requirement),
    finalized: response.finalized,
  };
}

function optionsDocument({ update, replaces, ...options }: ChildOptions): object {
  return { ...options, ...(update && { update: updateDocument(update) }), ...(replaces && { replaces: reference(replaces) }) };
}

/** The update strategy as a golden answer has it. */
export function updateDocument(update: UpdateStrategy): unknown {
  if (typeof update === 'string') {
    return update === 'on-delete' ? 'onDelete' : update;
  }
  const { rolling, recreate } = update;
  return { rolling: { recreate, until: rolling.length === 0 ? 'ready' : { conditions: rolling } } };
}

function reference({ kind, namespace, name }: ChildRef): object {
  return { apiVersion: kind.apiVersion, kind: kind.name, ...(namespace && { namespace }), name };
}

function requirement({ id, kind, namespaces, select, metadataOnly }: contract.Requirement): object {
  const selected = select.tag === 'label-selector' ? { labels: selectorText(decode(select.val)) } : { [select.tag]: select.val };
  return { id, apiVersion: kind.apiVersion, kind: kind.name, ...where(namespaces), ...selected, ...(metadataOnly && { metadataOnly }) };
}

function where(namespaces: contract.Requirement['namespaces']): object {
  if (namespaces.tag === 'named') {
    const [namespace, ...others] = namespaces.val;
    return namespace !== undefined && others.length === 0 ? { namespace } : { namespaces: namespaces.val };
  }
  return namespaces.tag === 'all' ? { namespaces: 'all' } : {};
}

/** A LabelSelector in kubectl's syntax, as the host writes it. */
function selectorText({ matchLabels, matchExpressions }: any): string {
  const labels = Object.entries(matchLabels ?? {}).sort().map(([key, value]) => ({ key, operator: 'In', values: [value] }));
  const term = ({ key, operator, values }: any): string =>
    ({ In: `${key} in (${values})`, NotIn: `${key} notin (${values})`, Exists: key, DoesNotExist: `!${key}` })[operator as string] ??
    // The host refuses it.
    `${key} ${operator} (${values})`;
  return [...labels, ...(matchExpressions ?? [])].map(term).join(',');
}
