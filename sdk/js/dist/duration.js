/** Durations. */
const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
/** A duration in whole milliseconds, the unit of the contract. */
export function milliseconds(duration) {
    const [, amount, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(typeof duration === 'number' ? `${duration}ms` : duration) ?? [];
    const value = Math.round(Number(amount) * (UNITS[unit ?? ''] ?? Number.NaN));
    if (!Number.isSafeInteger(value)) {
        throw new TypeError(`${JSON.stringify(duration)} is not a duration like 500, '30s', '5m' or '1h'`);
    }
    return value;
}
