/** The host of a test: its clocks, random numbers and schedules, and a record of the calls of its functions. */
import type { Level } from '../contract.js';
/** One log line. */
export interface LogLine {
    /** The level. */
    level: Level;
    /** The message. */
    message: string;
    /** Names and values. */
    fields: Record<string, string>;
}
/** One call of `measure`. */
export interface Measurement {
    /** The name of the metric. */
    metric: string;
    /** The value. */
    value: number;
    /** Names and values. */
    labels: Record<string, string>;
}
/** The calls of the host's functions during one call of a plugin. */
export interface HostCalls {
    /** Log lines. */
    logs: LogLine[];
    /** Measurements. */
    measurements: Measurement[];
    /** Attributes of the call's span. */
    spanAttributes: Record<string, string>;
    /** Events of the call's span. */
    spanEvents: SpanEvent[];
}
/** One call of `span.event`. */
export interface SpanEvent {
    /** The name of the event. */
    name: string;
    /** Names and values. */
    attributes: Record<string, string>;
}
/** Runs a function with a host that records its calls, at this time of the wall clock. */
export declare function record<T>(now: Date, run: () => T): {
    value: T;
    calls: HostCalls;
};
