/** The definition of a plugin. */

import { AdmissionRequest, verdictToContract, type Verdict } from './admission.js';
import { checkFields } from './checks.js';
import { updateToContract, type UpdateStrategy } from './child.js';
import type * as contract from './contract.js';
import type { Parent } from './crd.js';
import { milliseconds, type Duration } from './duration.js';
import { Failure, failed } from './failure.js';
import { log } from './host.js';
import { encode } from './json.js';
import { kindOf, type Kind } from './kinds.js';
import { Request, type Types } from './request.js';
import { toContract, type Response } from './response.js';
import type { Schema } from './schema.js';

/** An operator: its description, and the function that returns the desired state. */
export interface Definition<Spec, Status, Config> {
  /** A DNS label; also the default name of the Plugin resource. */
  name: string;
  /** Semantic version of the component. */
  version: string;
  /** One sentence about what the plugin does. */
  description?: string;
  /** The objects that the plugin reconciles: {@link customResource} or {@link existing}. */
  parent: Parent<Spec, Status>;
  /** The kinds of children. */
  children?: readonly (Kind<any> | ChildRule)[];
  /** The kinds that requirements may name. The plugin reads such objects and does not own them. */
  related?: readonly (Kind<any> | RelatedRule)[];
  /**
   * Gives parents a finalizer. When they are deleted or leave the selector, the plugin is called to clean up
   * ({@link Request.isFinalizing}).
   *
   * Their spec may be invalid ({@link Request.spec}), and reading it may fail: a function that begins with `const { spec } = request` can
   * block the deletion of such a parent. Clean up before the spec is read:
   *
   * ```ts
   * if (request.isFinalizing) {
   *   return { finalized: true };
   * }
   * const { spec } = request;
   * ```
   */
  finalizes?: boolean;
  /**
   * Whether the children of a deleted parent are deleted in reverse order of their stages ({@link ChildOptions.stage}), each stage gone
   * before the next.
   */
  orderedDeletion?: boolean;
  /**
   * What the condition `Ready` of a parent means: that all `children` were applied and are ready (the default); that they were `applied`;
   * or what the `plugin` says. A condition `Ready` of the response takes precedence.
   */
  readyMeans?: 'children' | 'applied' | 'plugin';
  /**
   * Whether {@link Request.now} has the time. A response with {@link Response.requeueAt} is reused until then if nothing else changes, and
   * one without it never.
   */
  clock?: boolean;
  /** The time between reconciles of a parent while nothing changes. The host adds jitter, and has a default. */
  resync?: Duration;
  /** The type of the Plugin's `spec.config`, which {@link Request.config} reads. */
  config?: Schema<Config>;
  /** The metrics that {@link measure} may name. */
  metrics?: readonly Metric[];

  /**
   * Returns the desired state for one parent. It depends on its request alone, and returns the same response for the same request.
   *
   * @throws {Failure} {@link invalid} if the user's spec is invalid, {@link failed} for all other failures. A plugin that waits for
   * something returns {@link wait}.
   */
  reconcile(request: Request<Spec, Status, Config>): Response<NoInfer<Status>>;

  /**
   * Validates and defaults a parent before it is stored. **The host does not serve admission yet**: it registers no webhook and never
   * calls this function, which only the tests call. In a cluster the CRD's schema and its CEL rules validate and default. A
   * {@link Failure} that is thrown denies the write with its message.
   */
  review?(request: AdmissionRequest<Spec, Config>): Verdict;
}

/** A kind of children. A kind alone is one that must exist, updated by server-side apply. */
export interface ChildRule {
  /** The kind. */
  kind: Kind<any>;
  /** How the host changes existing children that have no strategy of their own; `apply` by default. */
  update?: UpdateStrategy;
  /**
   * Whether the kind may be missing in the cluster. Then the host leaves out returned children of it, and {@link Request.hasKind} is false.
   * Without it, a missing kind stops the plugin.
   */
  optional?: boolean;
}

/** A kind of related objects. A kind alone is one that must exist. */
export interface RelatedRule {
  /** The kind. */
  kind: Kind<any>;
  /** Whether the kind may be missing in the cluster. Then requirements of it select nothing. */
  optional?: boolean;
}

/** A metric that the plugin reports with {@link measure}. */
export interface Metric {
  /** A Prometheus name without prefix. */
  name: string;
  /** Whether values add up (`counter`), replace each other (`gauge`) or form a distribution (`histogram`). */
  type: 'counter' | 'gauge' | 'histogram';
  /** A UCUM unit (`s`, `By`); leave it out for plain numbers. */
  unit?: string;
  /** One sentence. */
  description: string;
  /** The names of labels. */
  labels?: readonly string[];
}

/** A plugin; {@link plugin} makes it. */
export interface Plugin<Spec = any, Status = any, Config = any> {
  /** What it was made of. */
  readonly definition: Readonly<Definition<Spec, Status, Config>>;
  /** The contract's interface `reconciler`. */
  readonly reconciler: contract.Reconciler;
  /** The contract's interface `admission`; undefined for a plugin without {@link Definition.review}. */
  readonly admission: contract.Admission | undefined;
}

/**
 * Makes a plugin: the default export of a plugin's module.
 *
 * The types of the request and of the response's status come from the schemas in the definition.
 */
export function plugin<Spec, Status, Config = Record<string, never>>(
  definition: Definition<Spec, Status, Config>,
): Plugin<Spec, Status, Config> {
  const { parent, config, review } = definition;
  const missing = (['name', 'version', 'parent', 'reconcile'] as const).find((field) => !definition[field]);
  if (missing !== undefined) {
    throw new TypeError(`a plugin needs ${missing}`);
  }
  const types: Types<Spec, Status, Config> = { spec: parent.spec, status: parent.status, config };
  // While the component is built: a call of `describe` computes nothing.
  const descriptor = describe(definition);
  return Object.freeze({
    definition,
    reconciler: {
      describe: () => descriptor,
      reconcile: (raw: contract.Request) => {
        try {
          return reconcile(definition, new Request(raw, types));
        } catch (error) {
          throw failureOf(error).toContract();
        }
      },
    },
    admission: review && {
      review: (raw: contract.AdmissionRequest): contract.Verdict => {
        try {
          return verdictToContract(review.call(definition, new AdmissionRequest(raw, types)));
        } catch (error) {
          return { decision: { tag: 'deny', val: failureOf(error).toInvalid() }, warnings: [] };
        }
      },
    },
  });
}

function reconcile<Spec, Status, Config>(
  definition: Definition<Spec, Status, Config>,
  request: Request<Spec, Status, Config>,
): contract.Response {
  if (!request.isFinalizing) {
    void request.spec;
  }
  const response: unknown = definition.reconcile(request);
  if (typeof response !== 'object' || response === null) {
    throw new TypeError(`reconcile returned ${response} instead of a response`);
  }
  if ('then' in response) {
    throw new TypeError('reconcile returned a Promise: it must not be async, as there is nothing to wait for');
  }
  return toContract(response);
}

/**
 * An error that is not a {@link Failure} is a bug of the plugin. The parent's user reads its message in the parent's condition, and the
 * author finds its stack in the log. A trap instead would have no message, and count towards quarantine.
 */
function failureOf(error: unknown): Failure {
  if (error instanceof Failure) {
    return error;
  }
  if (!(error instanceof Error)) {
    return failed(`the plugin threw ${String(error)}`);
  }
  const message = `${error.name}: ${error.message}`;
  log.error([message, ...frames(error, message)].join('\n'));
  return failed(message);
}

/** The stack without the message, which some engines put first, and without the frame of the generated bindings. */
function frames({ stack = '' }: Error, message: string): string[] {
  const lines = (stack.startsWith(message) ? stack.slice(message.length) : stack).split('\n');
  return lines.filter((line) => line !== '' && !line.includes('sources/initializer.js')).slice(0, 20);
}

function describe(definition: Definition<any, any, any>): contract.Descriptor {
  const { name, version, description = '', parent, children = [], related = [], resync, config, metrics = [] } = definition;
  return {
    name,
    version,
    description,
    parent: describeParent(parent),
    children: children.map((child, index) => ({
      ...rule(child, `children[${index}]`),
      update: updateToContract((isRule<ChildRule>(child) && child.update) || 'apply'),
    })),
    related: related.map((kind, index) => rule(kind, `related[${index}]`)),
    endpoints: [],
    finalizes: definition.finalizes ?? false,
    orderedDeletion: definition.orderedDeletion ?? false,
    readyMeans: definition.readyMeans ?? 'children',
    clock: definition.clock ?? false,
    resync: resync === undefined ? undefined : BigInt(milliseconds(resync)),
    configSchema: config && encode(config.keywords),
    metrics: metrics.map(({ name, type, unit = '', description, labels = [] }) => ({
      name,
      unit,
      description,
      metricType: type,
      labels: [...labels],
    })),
    extensions: [],
  };
}

function describeParent({ crd, existing, selector }: Parent<any, any>): contract.Parent {
  // A text would otherwise select all objects.
  checkFields(selector, { labels: true, annotations: true }, 'parent.selector');
  return crd === undefined
    ? { tag: 'existing', val: { kind: kindOf(existing, 'parent.kind'), selector } }
    : { tag: 'custom', val: { definition: encode(crd), selector } };
}

function isRule<Rule extends RelatedRule>(kind: Kind<any> | Rule | undefined): kind is Rule {
  return (kind as Partial<Rule> | undefined)?.kind !== undefined;
}

function rule(given: Kind<any> | RelatedRule | undefined, path: string): contract.RelatedRule {
  return isRule(given)
    ? { kind: kindOf(given.kind, `${path}.kind`), optional: given.optional ?? false }
    : { kind: kindOf(given, path), optional: false };
}
