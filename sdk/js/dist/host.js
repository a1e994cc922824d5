/** Functions of the host that a plugin may call. Those here return nothing, so no response can depend on them. */
function noSchedules() {
    throw new Error('the host computes the times of a schedule: call the plugin in a test (`call`), or in a component');
}
const nowhere = { log() { }, spanAttribute() { }, spanEvent() { }, measure() { } };
let host = nowhere;
/** Who computes the times of schedules. */
export let schedules = { next: noSchedules, previous: noSchedules };
/** Sets the receivers of the calls, and returns those before. Without them (while the component is built), calls do nothing. */
export function connect(to, computing) {
    const before = [host, schedules];
    [host, schedules] = [to, computing];
    return before;
}
// All is converted, because the bindings trap on a value of another type.
function pairs(fields) {
    return Object.entries(fields).map(([name, value]) => [name, String(value)]);
}
function writer(level) {
    return (message, fields = {}) => host.log(level, String(message), pairs(fields));
}
/**
 * Writes lines into the host's log, with the plugin, the parent and these fields.
 *
 * ```ts
 * log.info('scaled', { from: 1, to: 3 });
 * ```
 *
 * Log lines, and attributes and events of the span, of one call have at most 64 KiB together (`spec.limits.logBytes` of the Plugin);
 * the host drops the rest. Users read the message of an error: it may not contain the value of a Secret.
 */
export const log = Object.freeze({
    /** Writes a line about a single step. */
    trace: writer('trace'),
    /** Writes a line for debugging the plugin. */
    debug: writer('debug'),
    /** Writes a line that is useful in production. */
    info: writer('info'),
    /** Writes a line about something unexpected that the plugin handles. */
    warn: writer('warn'),
    /** Writes a line about an error. */
    error: writer('error'),
});
/** The span of this call in the host's trace. Its attributes and events count as bytes of the {@link log}. */
export const span = Object.freeze({
    /** Sets an attribute to the text of a value. */
    attribute(key, value) {
        host.spanAttribute(String(key), String(value));
    },
    /** Adds an event with attributes. */
    event(name, attributes = {}) {
        host.spanEvent(String(name), pairs(attributes));
    },
});
/**
 * Adds to a counter, sets a gauge or records in a histogram that {@link Definition.metrics} declares. The value is in the metric's
 * unit. The host drops metrics and labels that the plugin does not declare.
 */
export function measure(metric, value, labels = {}) {
    host.measure(String(metric), Number(value), pairs(labels));
}
