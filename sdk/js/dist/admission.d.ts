/** Admission of parents. The host does not serve this yet. */
import type * as contract from './contract.js';
import type { KubernetesObject } from './kinds.js';
/** One write of a parent, before it is stored. */
export declare class AdmissionRequest<Spec = any, Config = any> {
    #private;
    /** The untyped request of the contract, which also has the namespace, the user's groups, and whether nothing is stored. */
    readonly raw: contract.AdmissionRequest;
    /** The object after the write; undefined for a deletion. */
    readonly object: KubernetesObject | undefined;
    /** The object before the write; undefined for a new one. */
    readonly oldObject: KubernetesObject | undefined;
    /** The operation. */
    get operation(): 'create' | 'update' | 'delete';
    /** Whether the object is being deleted. Its finalizers must be removable then, so even an invalid object must be allowed. */
    get isBeingDeleted(): boolean;
    /** The name of the user who writes, as the API server authenticated it. */
    get username(): string;
    /**
     * The spec after the write, with defaults. The API server checks it by the schema after the review: here a required field may be
     * `undefined`. One that cannot be converted denies the write, with a message that names the field.
     */
    get spec(): Spec;
    /** The spec before the write, with defaults; undefined for a new object. */
    get oldSpec(): Spec | undefined;
    /** The Plugin's `spec.config`; without one, `{}` is read. */
    get config(): Config;
}
/** The response to a write: {@link allow}, {@link replace}, {@link deny} or {@link withDefaults} make it. */
export type Verdict = ({
    /** The write is allowed. */
    allow: true;
} | {
    /** The write is allowed, and this object is stored instead. */
    replace: KubernetesObject;
} | {
    /** The write is denied, with a message for the user. */
    deny: string;
}) & {
    /** Warnings for the user. */
    warnings?: readonly string[];
};
/** Allows the write, with warnings for the user. */
export declare function allow(...warnings: string[]): Verdict;
/** Allows the write, and stores this object instead, of which the spec, labels and annotations may differ. */
export declare function replace(object: KubernetesObject, ...warnings: string[]): Verdict;
/** Denies the write, with a message for the user. To name a field, throw {@link invalid}. */
export declare function deny(message: string, ...warnings: string[]): Verdict;
/**
 * Allows an object with the defaults of its spec. Fields that the object has stay as they are.
 *
 * @throws {Failure} `invalid`, naming the field, if the spec cannot be converted: thrown from a review, it denies the write.
 */
export declare function withDefaults(request: AdmissionRequest): Verdict;
