/**
 * Write a Kubernetes operator as one function.
 *
 * A Windlass plugin is a function from a custom resource and the live objects to the desired state. The host does everything else: it
 * watches, caches and queues, applies the desired children, deletes the others, writes the status, retries and traces.
 *
 * @packageDocumentation
 */

export { AdmissionRequest, allow, deny, replace, withDefaults, type Verdict } from './admission.js';
export type * as contract from './contract.js';
export {
  customResource,
  existing,
  rfc1035Name,
  type Column,
  type CustomResource,
  type ExistingKind,
  type Parent,
} from './crd.js';
export type { Duration } from './duration.js';
export { Failure, failed, invalid, retry } from './failure.js';
export { log, measure, span, type Fields } from './host.js';
export type { JsonObject, JsonValue } from './json.js';
export { kind, kinds, type Kind, type KubernetesObject, type ObjectMeta } from './kinds.js';
export { plugin, type ChildRule, type Definition, type Metric, type Plugin, type Rolling } from './plugin.js';
export { Quantity } from './quantity.js';
export { LiveObject, Request, type LiveCondition, type Metadata } from './request.js';
export {
  forceOwnership,
  retain,
  type Condition,
  type Event,
  type Requirement,
  type Response,
} from './response.js';
export {
  Schema,
  t,
  type ArrayOptions,
  type Infer,
  type InferProperties,
  type IntegerOptions,
  type MapOptions,
  type NumberOptions,
  type ObjectOptions,
  type Optional,
  type Options,
  type Properties,
  type Rule,
  type StringOptions,
} from './schema.js';
