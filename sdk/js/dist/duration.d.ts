/** Durations. */
/**
 * A time span: a number of milliseconds, or a number with a unit: `'500ms'`, `'30s'`, `'5m'`, `'1h'`. A negative one, as of a time that
 * has passed, is 0.
 */
export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h'}`;
/** A duration in whole milliseconds, the unit of the contract. */
export declare function milliseconds(duration: Duration): number;
