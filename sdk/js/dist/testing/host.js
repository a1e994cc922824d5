/** The host of a test: its clocks, random numbers and schedules, and a record of the calls of its functions. */
import { connect } from '../host.js';
import { schedules } from './harness.js';
/** Runs a function with a host that records its calls, at this time of the wall clock. */
export function record(now, run) {
    const calls = { logs: [], measurements: [], spanAttributes: {}, spanEvents: [] };
    const recording = {
        log: (level, message, fields) => void calls.logs.push({ level, message, fields: Object.fromEntries(fields) }),
        spanAttribute: (key, value) => void (calls.spanAttributes[key] = value),
        spanEvent: (name, attributes) => void calls.spanEvents.push({ name, attributes: Object.fromEntries(attributes) }),
        measure: (metric, value, labels) => void calls.measurements.push({ metric, value, labels: Object.fromEntries(labels) }),
    };
    const before = connect(recording, schedules);
    const restore = [...standStill(now), ...sameRandomNumbers()];
    try {
        return { value: run(), calls };
    }
    finally {
        restore.forEach((undo) => undo());
        connect(...before);
    }
}
/** Replaces a property of an object, and returns a function that restores it. */
function replace(object, property, value) {
    const before = Object.getOwnPropertyDescriptor(object, property);
    Object.defineProperty(object, property, { value, configurable: true, writable: true });
    return () => {
        if (before === undefined) {
            delete object[property];
        }
        else {
            Object.defineProperty(object, property, before);
        }
    };
}
function standStill(now) {
    let elapsed = 0;
    const fixed = class extends Date {
        constructor(...time) {
            super(...(time.length === 0 ? [now.getTime()] : time));
        }
        static now() {
            return now.getTime();
        }
    };
    return [
        replace(globalThis, 'Date', fixed),
        // The host's clock moves when it is read, so that a loop that waits ends.
        replace(performance, 'now', () => (elapsed += 1)),
    ];
}
/** Random numbers are the same in every call, as the host gives the same ones for the same request. */
function sameRandomNumbers() {
    let state = 1;
    const next = () => {
        state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
        return state;
    };
    const fill = (array) => {
        if (array !== null) {
            const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
            bytes.forEach((_, index) => (bytes[index] = next() >>> 24));
        }
        return array;
    };
    const uuid = () => {
        const digits = [...fill(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
        return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-4${digits.slice(13, 16)}-8${digits.slice(17, 20)}-${digits.slice(20)}`;
    };
    return [
        replace(Math, 'random', () => next() / 2 ** 32),
        replace(crypto, 'getRandomValues', fill),
        replace(crypto, 'randomUUID', uuid),
    ];
}
