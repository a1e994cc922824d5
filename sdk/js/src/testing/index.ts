/**
 * Calls a plugin in a plain test, without WebAssembly and without a cluster. The call goes through the same bytes as in the host.
 *
 * ```ts
 * import assert from 'node:assert/strict';
 * import test from 'node:test';
 * import { call } from '@windlass/plugin/testing';
 * import echo from '../src/plugin.js';
 *
 * test('as many Pods as desired', () => {
 *   const { children } = call(echo, { parent: { metadata: { name: 'web' }, spec: { replicas: 2, image: 'nginx' } } });
 *   assert.deepEqual(children.map((pod) => pod.metadata.name), ['web-0', 'web-1']);
 * });
 * ```
 *
 * @module @windlass/plugin/testing
 */

import type { Verdict } from '../admission.js';
import type * as contract from '../contract.js';
import { Failure, failed, invalid } from '../failure.js';
import { decode, encode, type JsonObject } from '../json.js';
import type { Kind, KubernetesObject } from '../kinds.js';
import type { Plugin } from '../plugin.js';
import { missingField, type LeftOut, type Readiness } from '../request.js';
import { ask, type Answer, type ToldReadiness } from './harness.js';
import { record, type HostCalls } from './host.js';
import { parsed, type TestResponse } from './response.js';

export { checkCrd, golden, goldenCases, type GoldenCase, type GoldenOptions } from './golden.js';
export { Refused } from './harness.js';
export type { HostCalls, LogLine, Measurement, SpanEvent } from './host.js';
export type { Child, Named, TestResponse } from './response.js';

/** The input of a call: the parent, and what exists. */
export interface CallOptions {
  /** The parent. A missing `metadata.uid` becomes `uid`; `apiVersion` and `kind` are those of the plugin's parents. */
  parent: KubernetesObject;
  /**
   * Live children, in any order: those of an earlier response, for example. The host tells which are ready, unless {@link withReadiness}
   * does.
   */
  children?: readonly KubernetesObject[];
  /** Live children that the request is too small for. */
  leftOut?: readonly LeftOut[];
  /** The objects of the requirements that the host has served, by the requirement's id. */
  related?: Readonly<Record<string, readonly KubernetesObject[]>>;
  /** The Plugin's `spec.config`. */
  config?: unknown;
  /** Whether the plugin has to clean up (`Request.isFinalizing`). */
  finalize?: boolean;
  /** Why it has to (`Request.cause`); `deleted` by default. */
  cause?: contract.FinalizeCause;
  /** Whether the parent's namespace is being deleted (`Request.isNamespaceTerminating`). */
  namespaceTerminating?: boolean;
  /** The optional kinds that exist; all of the plugin's by default. */
  kinds?: readonly Kind<any>[];
  /** The namespaces in which the host refuses children. */
  closedNamespaces?: readonly string[];
  /** The time (`Request.now`, and the wall clock), in RFC 3339. The default is the beginning of 2026. */
  at?: string;
}

/** The outcome of a call: its response, or its failure. */
export type Outcome = Success | Failing;

/** A call with a response. */
export interface Success {
  /** The response. */
  response: TestResponse;
  /** Absent. */
  failure?: undefined;
}

/** A call that failed. */
export interface Failing {
  /** Absent. */
  response?: undefined;
  /** The failure. */
  failure: Failure;
  /** The calls of the host's functions before the failure. */
  calls: HostCalls;
}

/**
 * Calls the plugin and returns its response.
 *
 * @throws {Failure} the plugin's failure; the stack of an unexpected error is its `cause`. Or, without a call of the plugin, `invalid` with
 * the host's sentence, if the parent does not fit the schema of the CRD.
 * @throws {Refused} if the host refuses the response, the config or the plugin's description.
 * @throws {Error} if there is no `windlass` to ask (the environment variable `WINDLASS`, or in the PATH); if the status lacks a
 * field that its type requires, or has an unknown one or one of another type; and if the plugin measures something that it does not declare,
 * which the host would drop.
 */
export function call(plugin: Plugin, options: CallOptions): TestResponse {
  const { response, failure } = attempt(plugin, options);
  if (failure !== undefined) {
    throw failure;
  }
  return response;
}

/** Calls the plugin as {@link call}, and returns a failure instead of throwing it. */
export function attempt(plugin: Plugin, options: CallOptions): Outcome {
  const now = new Date(options.at ?? '2026-01-01T00:00:00Z');
  if (Number.isNaN(now.getTime())) {
    throw new TypeError(`at: ${options.at} is not a time in RFC 3339`);
  }
  const descriptor = plugin.reconciler.describe();
  const asked = requestOf(plugin, options, now);
  const answer = ask(descriptor, asked);
  const request = completed(asked, answer);
  const { value, calls } = record(now, () => {
    try {
      return answer.invalid === undefined ? { response: plugin.reconciler.reconcile(request) } : { failure: invalidOf(answer.invalid) };
    } catch (error) {
      return { failure: failureOf(error) };
    }
  });
  if (value.failure !== undefined) {
    const stack = value.failure.type === 'failed' ? calls.logs.filter(({ level }) => level === 'error').at(-1) : undefined;
    value.failure.cause = stack?.message;
    return { failure: value.failure, calls };
  }
  ask(descriptor, request, value.response);
  const response = { ...parsed(value.response), ...calls };
  check(plugin, response);
  return { response };
}

const READINESS = Symbol('readiness');

/** The readiness of which the test says nothing: this object, and no equal one. */
const UNTOLD: contract.Readiness = { tag: 'unknown' };

/** A live object that is ready, or not, with what is missing or why it failed, whatever the host would tell of it. */
export function withReadiness<T extends KubernetesObject>(object: T, state: Readiness['state'], message = ''): T {
  return { ...object, [READINESS]: { tag: state, val: message } };
}

/** A write of a parent. */
export interface ReviewOptions {
  /** The operation. By default it follows from the objects that there are. */
  operation?: 'create' | 'update' | 'delete';
  /** The object after the write. */
  object?: KubernetesObject;
  /** The object before the write. */
  oldObject?: KubernetesObject;
  /** The name of the user; `user` by default. */
  username?: string;
  /** The Plugin's `spec.config`. */
  config?: unknown;
}

/**
 * Calls the plugin's admission with a write of a parent.
 *
 * @throws {Error} if the plugin has no function `review`.
 */
export function review(plugin: Plugin, options: ReviewOptions): Verdict {
  const { admission } = plugin;
  if (admission === undefined) {
    throw new Error(`plugin ${plugin.definition.name} has no function review`);
  }
  const { object, oldObject, username = 'user', config } = options;
  const operation = options.operation ?? (object === undefined ? 'delete' : oldObject === undefined ? 'create' : 'update');
  const json = (value: unknown) => (value === undefined ? undefined : encode(value));
  const { namespace, name } = (object ?? oldObject)?.metadata ?? {};
  const request = {
    operation,
    kind: kindOfParents(plugin),
    namespace,
    namespaceLabels: [],
    name,
    object: json(object),
    oldObject: json(oldObject),
    dryRun: false,
    username,
    groups: [],
    config: json(config),
  };
  const { decision, warnings } = record(new Date('2026-01-01T00:00:00Z'), () => admission.review(request)).value;
  switch (decision.tag) {
    case 'allow':
      return { allow: true, warnings };
    case 'replace':
      return { replace: decode(decision.val) as KubernetesObject, warnings };
    case 'deny':
      return { deny: failureOf({ tag: 'invalid', val: decision.val }).message, warnings };
  }
}

/** The plugin's CRD; undefined for a plugin on an existing kind. */
export function crd(plugin: Plugin): JsonObject | undefined {
  const { parent } = plugin.reconciler.describe();
  return parent.tag === 'custom' ? (decode(parent.val.definition) as JsonObject) : undefined;
}

function requestOf(plugin: Plugin, options: CallOptions, now: Date): contract.Request {
  const { parent, children = [], leftOut = [], related = {}, config, closedNamespaces = [] } = options;
  const { finalize = false, cause = 'deleted', namespaceTerminating = false } = options;
  const descriptor = plugin.reconciler.describe();
  const optional = [...descriptor.children, ...descriptor.related].flatMap(({ kind, optional }) => (optional ? [kind] : []));
  const parentKind = kindOfParents(plugin);
  const metadata = { uid: 'uid', ...parent.metadata };
  return {
    phase: finalize ? { tag: 'finalize', val: { cause, namespaceTerminating } } : { tag: 'sync' },
    parentKind,
    parent: encode({ apiVersion: parentKind.apiVersion, kind: parentKind.name, ...parent, metadata }),
    children: children.map(observed).sort(byKey),
    leftOut: leftOut.map(({ size, ...child }) => ({ child, size: BigInt(size) })),
    related: Object.entries(related).map(([id, objects]) => ({ id, objects: objects.map(observed).sort(byKey) })),
    http: [],
    kinds: options.kinds ?? optional,
    now: descriptor.clock ? BigInt(now.getTime()) : undefined,
    config: config === undefined ? undefined : encode(config),
    capabilities: { features: [], closedNamespaces },
    extensions: [],
  };
}

/** The request as the host sends it: with the defaults of the parent, and with the readiness of all objects of which the test says nothing. */
function completed(request: contract.Request, { parent = request.parent, children, related }: Answer): contract.Request {
  const tell = (objects: readonly contract.Observed[], told: ToldReadiness[] = []): contract.Observed[] =>
    objects.map((object, index) => (object.readiness === UNTOLD ? { ...object, readiness: readiness(told[index]) } : object));
  return {
    ...request,
    parent,
    children: tell(request.children, children),
    related: request.related.map(({ id, objects }) => ({ id, objects: tell(objects, related?.[id]) })),
  };
}

function readiness({ state, message = '' }: ToldReadiness = { state: 'unknown' }): contract.Readiness {
  return { tag: state, val: message } as contract.Readiness;
}

function kindOfParents(plugin: Plugin): contract.Kind {
  const { existing, crd } = plugin.definition.parent;
  if (existing !== undefined) {
    return existing;
  }
  const { group, names, versions } = (crd as any).spec;
  return { apiVersion: `${group}/${versions[0].name}`, name: names.kind };
}

function observed(object: KubernetesObject & { [READINESS]?: contract.Readiness }): contract.Observed {
  const { apiVersion = '', kind = '', metadata } = object;
  return {
    kind: { apiVersion, name: kind },
    namespace: metadata?.namespace,
    name: metadata?.name ?? '',
    object: encode(object),
    readiness: object[READINESS] ?? UNTOLD,
  };
}

/** The order in which the host sends objects. */
function byKey(first: contract.Observed, second: contract.Observed): number {
  const key = ({ kind, namespace = '', name }: contract.Observed) => Buffer.from([kind.apiVersion, kind.name, namespace, name].join('\0'));
  return Buffer.compare(key(first), key(second));
}

/** The failure for what the host finds invalid in a parent: it begins with the first field. */
function invalidOf(sentence: string): Failure {
  const [, field = '', problem = sentence] = /^(.+?): (.*)$/s.exec(sentence) ?? [];
  return invalid(field, problem);
}

function failureOf(error: unknown): Failure {
  const failure = error as contract.Failure;
  return failure.tag === 'invalid' ? invalid(failure.val.field ?? '', failure.val.message) : failed(failure.val);
}

/** Throws if the API server or the host would drop a part of the response. */
function check(plugin: Plugin, response: TestResponse): void {
  const { status } = plugin.definition.parent;
  const { conditions: _, ...own } = response.status ?? {};
  if (status !== undefined && Object.keys(own).length > 0) {
    const missing = missingField(status, own);
    if (missing !== undefined) {
      throw new Error(`status.${missing}: is required`);
    }
    const unknown = dropped(own, status.read(own, 'status'), 'status');
    if (unknown !== undefined) {
      throw new Error(`${unknown}: the type of the status has no such field, and the API server drops it`);
    }
  }
  for (const { metric, labels } of response.measurements) {
    const declared = plugin.reconciler.describe().metrics.find(({ name }) => name === metric);
    const unknown = declared && Object.keys(labels).find((label) => !declared.labels.includes(label));
    if (declared === undefined || unknown !== undefined) {
      throw new Error(`metric ${metric}${unknown === undefined ? '' : `, label ${unknown}`}: the plugin does not declare it`);
    }
  }
}

/** The path of the first field that is missing in a copy without unknown fields. */
function dropped(all: unknown, known: unknown, path: string): string | undefined {
  if (typeof all !== 'object' || all === null || typeof known !== 'object' || known === null) {
    return undefined;
  }
  for (const [name, value] of Object.entries(all)) {
    const field = Array.isArray(all) ? `${path}[${name}]` : `${path}.${name}`;
    const found = Object.hasOwn(known, name) ? dropped(value, known[name as keyof typeof known], field) : field;
    if (found !== undefined) {
      return found;
    }
  }
  return undefined;
}
