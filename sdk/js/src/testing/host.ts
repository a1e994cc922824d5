/** The host of a test: its clocks, random numbers and schedules, and a record of the calls of its functions. */

import { connect } from '../host.js';
import type { Host, Level } from '../contract.js';
import { schedules } from './harness.js';

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
export function record<T>(now: Date, run: () => T): { value: T; calls: HostCalls } {
  const calls: HostCalls = { logs: [], measurements: [], spanAttributes: {}, spanEvents: [] };
  const recording: Host = {
    log: (level, message, fields) => void calls.logs.push({ level, message, fields: Object.fromEntries(fields) }),
    spanAttribute: (key, value) => void (calls.spanAttributes[key] = value),
    spanEvent: (name, attributes) => void calls.spanEvents.push({ name, attributes: Object.fromEntries(attributes) }),
    measure: (metric, value, labels) =>
      void calls.measurements.push({ metric, value, labels: Object.fromEntries(labels) }),
  };
  const before = connect(recording, schedules);
  const restore = [...standStill(now), ...sameRandomNumbers()];
  try {
    return { value: run(), calls };
  } finally {
    restore.forEach((undo) => undo());
    connect(...before);
  }
}

/** Replaces a property of an object, and returns a function that restores it. */
function replace<T extends object, K extends keyof T>(object: T, property: K, value: T[K]): () => void {
  const before = Object.getOwnPropertyDescriptor(object, property);
  Object.defineProperty(object, property, { value, configurable: true, writable: true });
  return () => {
    if (before === undefined) {
      delete object[property];
    } else {
      Object.defineProperty(object, property, before);
    }
  };
}

function standStill(now: Date): (() => void)[] {
  let elapsed = 0;
  const fixed = class extends Date {
    constructor(...time: []) {
      super(...((time.length === 0 ? [now.getTime()] : time) as []));
    }

    static override now(): number {
      return now.getTime();
    }
  };
  return [
    replace(globalThis, 'Date', fixed as DateConstructor),
    // The host's clock moves when it is read, so that a loop that waits ends.
    replace(performance, 'now', () => (elapsed += 1)),
  ];
}

/** Random numbers are the same in every call, as the host gives the same ones for the same request. */
function sameRandomNumbers(): (() => void)[] {
  let state = 1;
  const next = (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state;
  };
  const fill = <T extends ArrayBufferView | null>(array: T): T => {
    if (array !== null) {
      const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
      bytes.forEach((_, index) => (bytes[index] = next() >>> 24));
    }
    return array;
  };
  const uuid = (): ReturnType<typeof crypto.randomUUID> => {
    const digits = [...fill(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
    return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-4${digits.slice(13, 16)}-8${digits.slice(17, 20)}-${digits.slice(20)}`;
  };
  return [
    replace(Math, 'random', () => next() / 2 ** 32),
    replace(crypto, 'getRandomValues', fill as typeof crypto.getRandomValues),
    replace(crypto, 'randomUUID', uuid),
  ];
}
