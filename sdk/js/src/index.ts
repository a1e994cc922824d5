/**
 * Write a Kubernetes operator as one function.
 *
 * A Windlass plugin is a function from a custom resource and the live objects to the desired state. The host does everything else: it
 * watches, caches and queues, applies the desired children, deletes the others, writes the status, retries and traces.
 *
 * ```ts
 * import { customResource, kinds, plugin, t } from '@windlass/plugin';
 *
 * export default plugin({
 *   name: 'greeting',
 *   version: '0.1.0',
 *   parent: customResource({
 *     group: 'example.com',
 *     version: 'v1',
 *     kind: 'Greeting',
 *     spec: t.object({ name: t.string({ description: 'The name to greet.', minLength: 1 }) }),
 *   }),
 *   children: [kinds.ConfigMap],
 *   reconcile: (request) => ({
 *     children: [
 *       {
 *         apiVersion: 'v1',
 *         kind: 'ConfigMap',
 *         metadata: { name: request.name },
 *         data: { greeting: `Hello, ${request.spec.name}!` },
 *       },
 *     ],
 *   }),
 * });
 * ```
 *
 * {@link plugin} makes the plugin of its {@link Definition}, whose function gets a {@link Request} and returns a {@link Response}.
 * {@link t} makes the types of specs. `@windlass/plugin/testing` calls a plugin in a test.
 *
 * @module @windlass/plugin
 */

export { AdmissionRequest, allow, deny, replace, withDefaults, type Verdict } from './admission.js';
export { checksum } from './checksum.js';
export { childWith, type ChildOptions, type ChildRef, type Rolling, type UpdateStrategy } from './child.js';
export type * as contract from './contract.js';
export {
  customResource,
  existing,
  rfc1035Name,
  type Column,
  type CustomResource,
  type ExistingKind,
  type Parent,
  type ParentSelector,
} from './crd.js';
export type { Duration } from './duration.js';
export { Failure, failed, invalid } from './failure.js';
export { log, measure, span, type Fields } from './host.js';
export type { JsonObject, JsonValue } from './json.js';
export { kind, kinds, type Kind, type KubernetesObject, type ObjectMeta } from './kinds.js';
export { withPhase, type PhaseOptions, type StatusWithPhase } from './phase.js';
export { plugin, type ChildRule, type Definition, type Metric, type Plugin, type RelatedRule } from './plugin.js';
export { Quantity } from './quantity.js';
export { LiveObject, Request, type LeftOut, type LiveCondition, type Metadata, type Readiness } from './request.js';
export { rollout, rolloutMessage, type Rollout, type RolloutState } from './rollout.js';
export { Schedule, type Due, type ScheduleOptions } from './schedule.js';
export { wait, type Condition, type Event, type Requirement, type Response } from './response.js';
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
