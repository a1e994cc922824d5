/** Durations. */
const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
/** A duration in whole milliseconds, the unit of the contract. */
export function milliseconds(duration) {
    const value = Math.max(0, Math.round(typeof duration === 'number' ? duration : parsed(duration)));
    if (!Number.isSafeInteger(value)) {
        throw new TypeError(`${JSON.stringify(duration)} is not a duration like 500, '30s', '5m' or '1h'`);
    }
    return value;
}
function parsed(text) {
    const [, amount, unit = ''] = /^(-?\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text) ?? [];
    return Number(amount) * (UNITS[unit] ?? Number.NaN);
}
