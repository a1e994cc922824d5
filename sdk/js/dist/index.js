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
export { AdmissionRequest, allow, deny, replace, withDefaults } from './admission.js';
export { checksum } from './checksum.js';
export { childWith } from './child.js';
export { customResource, existing, rfc1035Name, } from './crd.js';
export { Failure, failed, invalid } from './failure.js';
export { log, measure, span } from './host.js';
export { kind, kinds } from './kinds.js';
export { withPhase } from './phase.js';
export { plugin } from './plugin.js';
export { Quantity } from './quantity.js';
export { LiveObject, Request } from './request.js';
export { rollout, rolloutMessage } from './rollout.js';
export { Schedule } from './schedule.js';
export { wait } from './response.js';
export { Schema, t, } from './schema.js';
