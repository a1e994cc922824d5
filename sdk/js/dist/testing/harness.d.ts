/** Questions about a call, and about schedules, that the host's own code answers: `windlass harness`. */
import type * as contract from '../contract.js';
/** The host refuses the response, the config or the plugin's description. The message is that of the host. */
export declare class Refused extends Error {
    /** Always `Refused`. */
    readonly name = "Refused";
}
/** The readiness of an object. */
export interface ToldReadiness {
    /** The state. */
    state: contract.Readiness['tag'];
    /** What is missing, or why it failed. */
    message?: string;
}
/** What the host says of a call. */
export interface Answer {
    /** What is invalid in the parent, so that the host does not call the plugin. */
    invalid?: string;
    /** The parent with its defaults, if it lacks any. */
    parent?: Uint8Array;
    /** Of each child, in the order of the request. */
    children?: ToldReadiness[];
    /** Of the related objects, by the id of their requirement. */
    related?: Record<string, ToldReadiness[]>;
}
/**
 * Asks the host about a call: before it is made, or after it, with its response.
 *
 * @throws {Refused} if the host refuses what it is asked about.
 * @throws {Error} if there is no `windlass`, or if it cannot read the question.
 */
export declare function ask(descriptor: contract.Descriptor, request: contract.Request, response?: contract.Response): Answer;
/** The host's answers about schedules. */
export declare const schedules: contract.Schedules;
