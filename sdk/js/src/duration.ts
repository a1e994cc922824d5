/** Durations. */

/**
 * A time span: a number of milliseconds, or a number with a unit: `'500ms'`, `'30s'`, `'5m'`, `'1h'`. A negative one, as of a time that
 * has passed, is 0.
 */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h'}`;

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** A duration in whole milliseconds, the unit of the contract. */
export function milliseconds(duration: Duration): number {
  const value = Math.max(0, Math.round(typeof duration === 'number' ? duration : parsed(duration)));
  if (!Number.isSafeInteger(value)) {
    throw new TypeError(`${JSON.stringify(duration)} is not a duration like 500, '30s', '5m' or '1h'`);
  }
  return value;
}

function parsed(text: string): number {
  const [, amount, unit = ''] = /^(-?\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text) ?? [];
  return Number(amount) * (UNITS[unit] ?? Number.NaN);
}
