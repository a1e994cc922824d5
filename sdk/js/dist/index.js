/**
 * Write a Kubernetes operator as one function.
 *
 * A Windlass plugin is a function from a custom resource and the live objects to the desired state. The host does everything else: it
 * watches, caches and queues, applies the desired children, deletes the others, writes the status, retries and traces.
 *
 * @packageDocumentation
 */
export { AdmissionRequest, allow, deny, replace, withDefaults } from './admission.js';
export { customResource, existing, rfc1035Name, } from './crd.js';
export { Failure, failed, invalid, retry } from './failure.js';
export { log, measure, span } from './host.js';
export { kind, kinds } from './kinds.js';
export { plugin } from './plugin.js';
export { Quantity } from './quantity.js';
export { LiveObject, Request } from './request.js';
export { forceOwnership, retain, } from './response.js';
export { Schema, t, } from './schema.js';
