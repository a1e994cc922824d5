/** Functions of the host that a plugin may call. Those here return nothing, so no response can depend on them. */
import type { Host, Schedules } from './contract.js';
/** Who computes the times of schedules. */
export declare let schedules: Schedules;
/** Sets the receivers of the calls, and returns those before. Without them (while the component is built), calls do nothing. */
export declare function connect(to: Host, computing: Schedules): [Host, Schedules];
/** Names and values, which are written as text. */
export type Fields = Readonly<Record<string, string | number | bigint | boolean>>;
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
export declare const log: Readonly<{
    /** Writes a line about a single step. */
    trace: (message: string, fields?: Fields) => void;
    /** Writes a line for debugging the plugin. */
    debug: (message: string, fields?: Fields) => void;
    /** Writes a line that is useful in production. */
    info: (message: string, fields?: Fields) => void;
    /** Writes a line about something unexpected that the plugin handles. */
    warn: (message: string, fields?: Fields) => void;
    /** Writes a line about an error. */
    error: (message: string, fields?: Fields) => void;
}>;
/** The span of this call in the host's trace. Its attributes and events count as bytes of the {@link log}. */
export declare const span: Readonly<{
    /** Sets an attribute to the text of a value. */
    attribute(key: string, value: Fields[string]): void;
    /** Adds an event with attributes. */
    event(name: string, attributes?: Fields): void;
}>;
/**
 * Adds to a counter, sets a gauge or records in a histogram that {@link Definition.metrics} declares. The value is in the metric's
 * unit. The host drops metrics and labels that the plugin does not declare.
 */
export declare function measure(metric: string, value: number, labels?: Fields): void;
