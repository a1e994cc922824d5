/** The request of a call, typed. */

import type { ChildRef } from './child.js';
import type * as contract from './contract.js';
import { Failure, failed } from './failure.js';
import { randomText, secretValue } from './generated.js';
import { decode, type JsonObject, type JsonValue } from './json.js';
import { kinds, type Kind, type KubernetesObject } from './kinds.js';
import type { Schema } from './schema.js';

/** The fields of an object's `metadata` that plugins need. */
export interface Metadata {
  /** The name. */
  readonly name: string;
  /** The namespace; absent for a cluster-scoped object. */
  readonly namespace?: string;
  /** The unique id: a later object of the same name has another one. */
  readonly uid: string;
  /** The generation, which grows with each change of the spec. */
  readonly generation: number;
  /** The labels. */
  readonly labels: Readonly<Record<string, string>>;
  /** The annotations. */
  readonly annotations: Readonly<Record<string, string>>;
  /** The time of creation in RFC 3339. */
  readonly creationTimestamp?: string;
  /** The time of the deletion request in RFC 3339; absent while the object is not being deleted. */
  readonly deletionTimestamp?: string;
  /** All others, as the API server sent them. */
  readonly [field: string]: any;
}

/** One entry of an object's `status.conditions`. */
export interface LiveCondition {
  /** The type, in CamelCase: `Ready`. */
  readonly type: string;
  /** The status. */
  readonly status: 'True' | 'False' | 'Unknown';
  /** Why the condition has this status, in CamelCase. */
  readonly reason?: string;
  /** Details for users. */
  readonly message?: string;
  /** The time of the last change of `status` in RFC 3339. */
  readonly lastTransitionTime?: string;
}

/** @internal */
export function metadataOf(object: KubernetesObject): Metadata {
  return { name: '', uid: '', generation: 0, labels: {}, annotations: {}, ...object.metadata } as Metadata;
}

function conditionOf(object: KubernetesObject, type: string): LiveCondition | undefined {
  const conditions: unknown = object['status']?.conditions;
  return Array.isArray(conditions) ? conditions.find((condition) => condition?.type === type) : undefined;
}

/** Whether an object is ready, by the rules of kstatus (`sigs.k8s.io/cli-utils`). */
export interface Readiness {
  /**
   * `ready`: it does what its spec says. `progressing`: not yet. `failed`: it will not become ready by itself. `unknown`: its kind is not
   * built in, and it has none of the conditions that tell.
   */
  readonly state: contract.Readiness['tag'];
  /** What is missing, or why it failed; else empty. */
  readonly message: string;
}

/** A live child that the request is too small for. The host neither changes, deletes nor recreates it. */
export interface LeftOut extends ChildRef {
  /** Its size as JSON, in bytes. */
  readonly size: number;
}

/** A value that is computed at the first read. */
function lazy<T>(compute: () => T): () => T {
  let value: { of: T } | undefined;
  return () => (value ??= { of: compute() }).of;
}

/** A live object: a child or a related object. */
export class LiveObject<T = KubernetesObject> {
  readonly #observed: contract.Observed;
  #object: KubernetesObject | undefined;

  /** @internal */
  constructor(observed: contract.Observed) {
    this.#observed = observed;
  }

  /** The kind. */
  get kind(): contract.Kind {
    return this.#observed.kind;
  }

  /** The name. */
  get name(): string {
    return this.#observed.name;
  }

  /** The namespace; undefined for a cluster-scoped object. */
  get namespace(): string | undefined {
    return this.#observed.namespace;
  }

  /** The object as the API server sent it. It is parsed at the first read. */
  get object(): T {
    return this.#parsed() as T;
  }

  /** The metadata. */
  get metadata(): Metadata {
    return metadataOf(this.#parsed());
  }

  /** Whether the object is ready, and what is missing. Unknown if only the metadata was required. */
  get readiness(): Readiness {
    const { readiness } = this.#observed;
    return { state: readiness.tag, message: 'val' in readiness ? readiness.val : '' };
  }

  /** Whether the object is known to be ready. */
  get isReady(): boolean {
    return this.#observed.readiness.tag === 'ready';
  }

  /** Whether the object is being deleted (`metadata.deletionTimestamp`). */
  get isBeingDeleted(): boolean {
    return this.metadata.deletionTimestamp !== undefined;
  }

  /** The entry of `status.conditions` with this type; undefined if there is none. */
  condition(type: string): LiveCondition | undefined {
    return conditionOf(this.#parsed(), type);
  }

  /** Whether the condition of this type has status True. */
  isConditionTrue(type: string): boolean {
    return this.condition(type)?.status === 'True';
  }

  #parsed(): KubernetesObject {
    return (this.#object ??= decode(this.#observed.object) as KubernetesObject);
  }
}

/** Everything that a response may depend on. */
export class Request<Spec = any, Status = any, Config = any> {
  /** The untyped request of the contract. */
  readonly raw: contract.Request;
  readonly #parent: () => KubernetesObject;
  readonly #metadata: () => Metadata;
  readonly #spec: () => Spec;
  readonly #status: () => Status | undefined;
  readonly #config: () => Config;
  readonly #children: () => readonly LiveObject[];

  /** @internal */
  constructor(raw: contract.Request, types: Types<Spec, Status, Config>) {
    this.raw = raw;
    this.#parent = lazy(() => decode(raw.parent) as KubernetesObject);
    this.#metadata = lazy(() => metadataOf(this.parent));
    this.#spec = lazy(() => readSpec(types.spec, this.parent));
    this.#status = lazy(() => readStatus(types.status, this.parent['status']));
    this.#config = lazy(() => readConfig(types.config, raw.config));
    this.#children = lazy(() => raw.children.map((child) => new LiveObject(child)));
  }

  /** The parent's name. */
  get name(): string {
    return this.metadata.name;
  }

  /** The parent's namespace; undefined for a cluster-scoped parent. */
  get namespace(): string | undefined {
    return this.metadata.namespace;
  }

  /** The parent's uid. */
  get uid(): string {
    return this.metadata.uid;
  }

  /** The parent's metadata. */
  get metadata(): Metadata {
    return this.#metadata();
  }

  /**
   * The parent's spec, with defaults. It fits the schema of the CRD: the host reports any other parent as invalid without a call.
   *
   * In a clean-up it may be any spec, so that a parent with an invalid one can be cleaned up and deleted: a required field may be
   * `undefined`, and a value out of its bounds. Reading fails only if JSON of another type than declared cannot be converted. The host does
   * not check parents of an {@link existing} kind either; if their spec cannot be read, the call fails before the plugin's function runs.
   */
  get spec(): Spec {
    return this.#spec();
  }

  /**
   * The parent's status as last written; undefined if there is none, or if it lacks a field that its type requires or has one of another
   * type: an older version may have written it, or the host alone.
   */
  get status(): Status | undefined {
    return this.#status();
  }

  /** The whole parent, as the API server sent it, for kinds with fields outside `spec`. */
  get parent(): KubernetesObject {
    return this.#parent();
  }

  /**
   * The Plugin's `spec.config`, with defaults; without one, `{}` is read. The host refuses a config that does not fit the declared type. If
   * one cannot be converted, the call fails (`failed`): the parent's user cannot correct it.
   */
  get config(): Config {
    return this.#config();
  }

  /**
   * The time at which the reconcile began.
   *
   * @throws {TypeError} if the plugin has no {@link Definition.clock}.
   */
  get now(): Date {
    if (this.raw.now === undefined) {
      throw new TypeError('request.now needs `clock: true` in the definition of the plugin');
    }
    return new Date(Number(this.raw.now));
  }

  /**
   * Whether the plugin has to clean up ({@link Definition.finalizes}). The response then lists the children that must still exist, and
   * {@link Response.finalized} ends the parent.
   */
  get isFinalizing(): boolean {
    return this.#finalizing !== undefined;
  }

  /**
   * Why the plugin has to clean up: the parent is being deleted, or it or its namespace does not match the selector any more. Undefined
   * unless {@link isFinalizing}.
   */
  get cause(): contract.FinalizeCause | undefined {
    return this.#finalizing?.cause;
  }

  /**
   * Whether the parent is being finalized in a namespace that is being deleted. No child can be created there, and the host removes
   * the finalizer after 30 seconds: a plugin that cleans up with a Job must do without it.
   */
  get isNamespaceTerminating(): boolean {
    return this.#finalizing?.namespaceTerminating ?? false;
  }

  get #finalizing(): contract.Finalizing | undefined {
    const { phase } = this.raw;
    return phase.tag === 'finalize' ? phase.val : undefined;
  }

  /**
   * Whether the children of the last response for the current generation of the spec have been applied: the host writes this into
   * `status.observedGeneration` and the condition `Stalled`. Until then the live children belong to an older spec: however complete
   * they look, the parent is not ready. Always false for kinds whose status has no such fields, as built-in kinds.
   */
  get isSpecApplied(): boolean {
    const observed: unknown = this.parent['status']?.observedGeneration;
    const stalled = conditionOf(this.parent, 'Stalled');
    return (
      typeof observed === 'number' &&
      observed >= this.metadata.generation &&
      // A child that failed after it was applied stalls the parent too.
      (stalled?.status !== 'True' || stalled.reason === 'ChildFailed')
    );
  }

  /** All live children, ordered by apiVersion, kind, namespace and name; see {@link childrenOf}. */
  get children(): readonly LiveObject[] {
    return this.#children();
  }

  /**
   * The live children of one kind, ordered by namespace and name. Children that are being deleted are among them; those that are
   * {@link leftOut} are not.
   */
  childrenOf<T>(kind: Kind<T>): LiveObject<T>[] {
    return ofKind(this.children, kind);
  }

  /**
   * The live child of this kind and name, in the parent's namespace or in another one that a cluster-scoped parent names; undefined
   * if there is none.
   */
  child<T>(kind: Kind<T>, name: string, namespace: string | undefined = this.namespace): LiveObject<T> | undefined {
    return this.childrenOf(kind).find((child) => child.name === name && child.namespace === namespace);
  }

  /**
   * A value that is generated once, such as a password: that of the key in the live child Secret of this name, or, if there is none, what
   * `make` returns; by default 24 random letters and digits. The plugin returns it in the Secret in every response, so that it stays. The
   * Secret is in the parent's namespace, or in another one that a cluster-scoped parent names.
   *
   * ```ts
   * const password = request.generated('db', 'password');
   * const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'db' }, data: { password: btoa(password) } };
   * ```
   */
  generated(secretName: string, key: string, make: () => string = randomText, namespace = this.namespace): string {
    return secretValue(this.child(kinds.Secret, secretName, namespace)?.object, key) ?? make();
  }

  /** The largest live children, if the request would exceed `spec.limits.requestBytes` of the Plugin with them. */
  get leftOut(): LeftOut[] {
    return this.raw.leftOut.map(({ child, size }) => ({ ...child, size: Number(size) }));
  }

  /** Whether an optional kind of children or related objects exists in the cluster and is granted. False for all other kinds. */
  hasKind(kind: Kind<any>): boolean {
    return this.raw.kinds.some((one) => isSame(one, kind));
  }

  /** The namespaces in which the host refuses children: its own, and those that the Plugin does not grant by name. */
  get closedNamespaces(): readonly string[] {
    return this.raw.capabilities.closedNamespaces;
  }

  /**
   * The related objects that the requirement of this id selects. Undefined while the host has not served the requirement: return a
   * response with the requirement and without whatever depends on it, and the host calls again at once. An object that does not exist
   * is served as no object. The kind is that of the requirement: it gives the objects their type.
   *
   * ```ts
   * const [certificate] = request.related('certificate', kinds.Secret) ?? [];
   * return {
   *   children: [certificate && ingress(request, certificate.name)],
   *   // In every response, also when the objects have been served.
   *   requirements: [{ id: 'certificate', kind: kinds.Secret, name: 'shop-tls' }],
   * };
   * ```
   */
  related<T = KubernetesObject>(id: string, kind?: Kind<T>): LiveObject<T>[] | undefined {
    const objects = this.raw.related.find((related) => related.id === id)?.objects.map((object) => new LiveObject(object));
    return objects && (kind === undefined ? (objects as LiveObject<any>[]) : ofKind(objects, kind));
  }
}

/** The types of a plugin. @internal */
export interface Types<Spec, Status, Config> {
  spec: Schema<Spec> | undefined;
  status: Schema<Status> | undefined;
  config: Schema<Config> | undefined;
}

function ofKind<T>(objects: readonly LiveObject[], kind: Kind<T>): LiveObject<T>[] {
  return objects.filter((object) => isSame(object.kind, kind)) as LiveObject<any>[];
}

function isSame(one: contract.Kind, other: contract.Kind): boolean {
  return one.name === other.name && one.apiVersion === other.apiVersion;
}

/** Reads the spec of a parent. @internal */
export function readSpec<Spec>(type: Schema<Spec> | undefined, parent: KubernetesObject): Spec {
  // A parent without spec is one whose fields all have defaults, or a built-in kind that has no spec.
  const spec: JsonValue = parent['spec'] ?? {};
  return type === undefined ? (spec as Spec) : type.read(spec, 'spec');
}

function readStatus<Status>(type: Schema<Status> | undefined, status: JsonObject | null | undefined): Status | undefined {
  if (type === undefined || status === undefined || status === null) {
    return (status as Status | null) ?? undefined;
  }
  try {
    return missingField(type, status) === undefined ? type.read(status, 'status') : undefined;
  } catch (error) {
    if (error instanceof Failure) {
      return undefined;
    }
    throw error;
  }
}

/** A field that the type of a status requires, and that the status lacks. The host does not check a status. @internal */
export function missingField(type: Schema<any>, status: JsonObject): string | undefined {
  const required = (type.keywords['required'] ?? []) as string[];
  return required.find((name) => !Object.hasOwn(status, name) || status[name] === null);
}

/** Reads the Plugin's `spec.config`. @internal */
export function readConfig<Config>(type: Schema<Config> | undefined, config: Uint8Array | undefined): Config {
  const value = config === undefined ? {} : decode(config);
  try {
    return type === undefined ? (value as Config) : type.read(value, "the Plugin's spec.config");
  } catch (error) {
    throw error instanceof Failure ? failed(error.message) : error;
  }
}
