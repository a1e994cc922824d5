/** The definition of a plugin. */
import { AdmissionRequest, verdictToContract } from './admission.js';
import { checkFields } from './checks.js';
import { updateToContract } from './child.js';
import { milliseconds } from './duration.js';
import { Failure, failed } from './failure.js';
import { log } from './host.js';
import { encode } from './json.js';
import { kindOf } from './kinds.js';
import { Request } from './request.js';
import { toContract } from './response.js';
/**
 * Makes a plugin: the default export of a plugin's module.
 *
 * The types of the request and of the response's status come from the schemas in the definition.
 */
export function plugin(definition) {
    const { parent, config, review } = definition;
    const missing = ['name', 'version', 'parent', 'reconcile'].find((field) => !definition[field]);
    if (missing !== undefined) {
        throw new TypeError(`a plugin needs ${missing}`);
    }
    const types = { spec: parent.spec, status: parent.status, config };
    // While the component is built: a call of `describe` computes nothing.
    const descriptor = describe(definition);
    return Object.freeze({
        definition,
        reconciler: {
            describe: () => descriptor,
            reconcile: (raw) => {
                try {
                    return reconcile(definition, new Request(raw, types));
                }
                catch (error) {
                    throw failureOf(error).toContract();
                }
            },
        },
        admission: review && {
            review: (raw) => {
                try {
                    return verdictToContract(review.call(definition, new AdmissionRequest(raw, types)));
                }
                catch (error) {
                    return { decision: { tag: 'deny', val: failureOf(error).toInvalid() }, warnings: [] };
                }
            },
        },
    });
}
function reconcile(definition, request) {
    if (!request.isFinalizing) {
        void request.spec;
    }
    const response = definition.reconcile(request);
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
function failureOf(error) {
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
function frames({ stack = '' }, message) {
    const lines = (stack.startsWith(message) ? stack.slice(message.length) : stack).split('\n');
    return lines.filter((line) => line !== '' && !line.includes('sources/initializer.js')).slice(0, 20);
}
function describe(definition) {
    const { name, version, description = '', parent, children = [], related = [], resync, config, metrics = [] } = definition;
    return {
        name,
        version,
        description,
        parent: describeParent(parent),
        children: children.map((child, index) => ({
            ...rule(child, `children[${index}]`),
            update: updateToContract((isRule(child) && child.update) || 'apply'),
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
function describeParent({ crd, existing, selector }) {
    // A text would otherwise select all objects.
    checkFields(selector, { labels: true, annotations: true }, 'parent.selector');
    return crd === undefined
        ? { tag: 'existing', val: { kind: kindOf(existing, 'parent.kind'), selector } }
        : { tag: 'custom', val: { definition: encode(crd), selector } };
}
function isRule(kind) {
    return kind?.kind !== undefined;
}
function rule(given, path) {
    return isRule(given)
        ? { kind: kindOf(given.kind, `${path}.kind`), optional: given.optional ?? false }
        : { kind: kindOf(given, path), optional: false };
}
