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
import { Failure } from '../failure.js';
import { type JsonObject } from '../json.js';
import type { Kind, KubernetesObject } from '../kinds.js';
import type { Plugin } from '../plugin.js';
import { type LeftOut, type Readiness } from '../request.js';
import { type HostCalls } from './host.js';
import { type TestResponse } from './response.js';
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
export declare function call(plugin: Plugin, options: CallOptions): TestResponse;
/** Calls the plugin as {@link call}, and returns a failure instead of throwing it. */
export declare function attempt(plugin: Plugin, options: CallOptions): Outcome;
/** A live object that is ready, or not, with what is missing or why it failed, whatever the host would tell of it. */
export declare function withReadiness<T extends KubernetesObject>(object: T, state: Readiness['state'], message?: string): T;
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
export declare function review(plugin: Plugin, options: ReviewOptions): Verdict;
/** The plugin's CRD; undefined for a plugin on an existing kind. */
export declare function crd(plugin: Plugin): JsonObject | undefined;
