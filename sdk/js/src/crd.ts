/** The CustomResourceDefinition of a plugin. */

import type { JsonObject } from './json.js';
import type { Kind } from './kinds.js';
import type { Rule, Schema } from './schema.js';

/** A column of `kubectl get`. */
export interface Column {
  /** The title. */
  name: string;
  /** The type of the value. */
  type: 'integer' | 'number' | 'string' | 'boolean' | 'date';
  /** The JSON path of the value: `.spec.replicas`. */
  jsonPath: string;
  /** What the column shows. */
  description?: string;
  /** Above 0, only `kubectl get -o wide` shows the column. */
  priority?: number;
  /** The format of the value. */
  format?: string;
}

/** Which objects of their kind a plugin reconciles: those that match both selectors. */
export interface ParentSelector {
  /** A label selector in kubectl's syntax: `tier in (a,b),!legacy`. */
  labels?: string;
  /** A selector in the same syntax, over annotations. Objects that do not match cost the host memory. */
  annotations?: string;
}

/** A custom kind. */
export interface CustomResource<Spec, Status> {
  /** The group: `example.com`. */
  group: string;
  /** The version: `v1`. */
  version: string;
  /** The kind: `Greeting`. */
  kind: string;
  /** The plural. The default is the English plural of the kind (`echo`, `echoes`; `policy`, `policies`). */
  plural?: string;
  /** Whether objects are in namespaces; the default is `Namespaced`. */
  scope?: 'Namespaced' | 'Cluster';
  /** Short names for kubectl. */
  shortNames?: readonly string[];
  /** Categories: with `all`, `kubectl get all` shows objects of this kind. */
  categories?: readonly string[];
  /**
   * Columns of `kubectl get`. `Ready` (from the conditions) is always the first and `Age` the last, unless a column has this name.
   */
  columns?: readonly Column[];
  /** CEL rules on the whole object (`self.metadata.name`, `self.spec`, `oldSelf`). Rules on a field are options of its type. */
  rules?: readonly Rule[];
  /** The objects that the plugin reconciles; all by default. */
  selector?: ParentSelector;
  /** The type of `spec`, which users write. */
  spec: Schema<Spec>;
  /** The type of the plugin's part of `status`. The host adds `observedGeneration` and `conditions`. */
  status?: Schema<Status>;
}

/** A kind that exists already. */
export interface ExistingKind<Spec, Status> {
  /** The kind. */
  kind: Kind;
  /** The objects that the plugin reconciles; all by default. */
  selector?: ParentSelector;
  /** The type of `spec`, for a kind that has one. */
  spec?: Schema<Spec>;
  /** The type of `status`. */
  status?: Schema<Status>;
}

/** The objects that a plugin reconciles; {@link customResource} and {@link existing} make it. */
export interface Parent<Spec, Status> {
  /** The CRD; absent for an existing kind. */
  readonly crd?: Readonly<JsonObject>;
  /** The existing kind. */
  readonly existing?: Kind;
  /** The objects that the plugin reconciles. */
  readonly selector: ParentSelector;
  /** The type of `spec`. */
  readonly spec: Schema<Spec> | undefined;
  /** The type of the plugin's part of `status`. */
  readonly status: Schema<Status> | undefined;
}

/** Parents of a custom kind, whose CRD the component contains. */
export function customResource<Spec, Status = Record<string, never>>(resource: CustomResource<Spec, Status>): Parent<Spec, Status> {
  const { selector = {}, spec, status } = resource;
  return Object.freeze({ crd: crd(resource), selector, spec, status });
}

/** Parents of a kind that the plugin does not define: a built-in kind, or a custom kind of another operator. */
export function existing<Spec = any, Status = any>(parent: ExistingKind<Spec, Status>): Parent<Spec, Status> {
  const { kind, selector = {}, spec, status } = parent;
  return Object.freeze({ existing: kind, selector, spec, status });
}

/**
 * The rule that an object's name is a label by RFC 1035 of at most this many characters (63 or less): for a kind whose objects share
 * their name with a Service. A plugin that appends to the name subtracts the length of what it appends.
 */
export function rfc1035Name(maxLength = 63): Rule {
  return {
    rule: `self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= ${maxLength}`,
    message: `name must be a label of DNS that begins with a letter (a-z, 0-9, -), at most ${maxLength} characters`,
  };
}

function crd(resource: CustomResource<any, any>): JsonObject {
  const { group, version, kind, scope = 'Namespaced', spec, status } = resource;
  const singular = kind.toLowerCase();
  const names = { kind, listKind: `${kind}List`, plural: resource.plural ?? plural(singular), singular };
  const schema = {
    type: 'object',
    // A spec without required fields is optional.
    ...(spec.keywords['required'] === undefined ? {} : { required: ['spec'] }),
    properties: { spec: spec.keywords as JsonObject, status: statusSchema(status?.keywords ?? {}) },
    ...nonEmpty('x-kubernetes-validations', resource.rules),
  };
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${names.plural}.${group}` },
    spec: {
      group,
      names: {
        ...names,
        ...nonEmpty('shortNames', resource.shortNames),
        ...nonEmpty('categories', resource.categories),
      },
      scope,
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: columns(resource.columns ?? []),
          schema: { openAPIV3Schema: schema },
        },
      ],
    },
  };
}

function nonEmpty(name: string, values: readonly (object | string)[] = []): JsonObject {
  return values.length > 0 ? { [name]: [...values] as JsonObject[] } : {};
}

function columns(own: readonly Column[]): JsonObject[] {
  const unless = (column: Column): Column[] => (own.some(({ name }) => name === column.name) ? [] : [column]);
  const ready: Column = { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' };
  const age: Column = { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' };
  return [...unless(ready), ...own, ...unless(age)].map((column) => ({ ...column }));
}

const GENERATION = { type: 'integer', format: 'int64', minimum: 0 };

/** The plugin's fields and the host's. None is required: after a failed first call, the status has only the host's fields. */
function statusSchema({ required: _, nullable: __, properties, ...keywords }: Readonly<JsonObject>): JsonObject {
  return {
    ...keywords,
    type: 'object',
    properties: { ...(properties as JsonObject), observedGeneration: GENERATION, conditions: conditions() },
  };
}

/** A list of `metav1.Condition` with the bounds of that type. */
function conditions(): JsonObject {
  return {
    type: 'array',
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['type'],
    items: {
      type: 'object',
      required: ['lastTransitionTime', 'message', 'reason', 'status', 'type'],
      properties: {
        type: { type: 'string', maxLength: 316 },
        status: { type: 'string', enum: ['True', 'False', 'Unknown'] },
        observedGeneration: GENERATION,
        lastTransitionTime: { type: 'string', format: 'date-time' },
        reason: {
          type: 'string',
          minLength: 1,
          maxLength: 1024,
          pattern: '^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$',
        },
        message: { type: 'string', maxLength: 32768 },
      },
    },
  };
}

/** The English plural of a kind. */
function plural(singular: string): string {
  if (/[^aeou]y$/.test(singular)) {
    return `${singular.slice(0, -1)}ies`;
  }
  return /([sxzo]|ch|sh)$/.test(singular) ? `${singular}es` : `${singular}s`;
}
