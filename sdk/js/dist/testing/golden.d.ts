/**
 * Golden cases: a folder of requests, and beside each the expected response.
 *
 * `scale-up.yaml` is a request: a parent and the live objects.
 *
 * ```yaml
 * description: The second Pod is missing
 * parent: {metadata: {name: web}, spec: {replicas: 2, image: nginx}}
 * children:                       # optional, as `related` (by requirement), `config` and `at` (the time)
 *   - {apiVersion: v1, kind: Pod, metadata: {name: web-0}}
 * ```
 *
 * `finalize: true` asks the plugin to clean up, for the `cause` `deleted`, `leftSelector` or `leftNamespaces`, perhaps with
 * `namespaceTerminating: true`. `kinds` (`{apiVersion, kind}`) are the optional kinds that exist, all by default, and `closedNamespaces` the
 * namespaces in which the host refuses children.
 *
 * `scale-up.answer.yaml` is the response. `UPDATE_EXPECT=1 node --test` writes it, for review.
 *
 * `windlass test --cases` reads the same files.
 */
import type { Plugin } from '../plugin.js';
import { type CallOptions } from './index.js';
/** How responses are compared. */
export interface GoldenOptions {
    /**
     * What of an `invalid` failure is compared: the whole message, or only the field, for a folder that plugins in several languages
     * share. The default is `message`.
     */
    invalid?: 'message' | 'field';
}
/** One golden case. */
export interface GoldenCase {
    /** The file's name without its extension. */
    name: string;
    /** The input of the call. */
    options: CallOptions;
    /**
     * Calls the plugin twice.
     *
     * @throws if the two responses differ, or if they are not the expected one.
     */
    check(): void;
}
/** Makes a test of node's test runner of each case in a folder. A relative path starts at the working directory. */
export declare function golden(plugin: Plugin, folder: string | URL, options?: GoldenOptions): void;
/**
 * The cases in a folder, in the order of their names, for another test runner.
 *
 * @throws if the folder has no case, if a file cannot be read, and if a response has no request.
 */
export declare function goldenCases(plugin: Plugin, folder: string | URL, options?: GoldenOptions): GoldenCase[];
/**
 * Compares the plugin's CRD with a file, whose order of fields does not matter. The component does not need the file: it shows changes
 * of the CRD in reviews.
 *
 * @throws if they differ. With `UPDATE_EXPECT=1` the file is written instead.
 */
export declare function checkCrd(plugin: Plugin, file: string | URL): void;
