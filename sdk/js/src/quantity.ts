/** Quantities as Kubernetes writes them. */

const ONE = 1_000_000_000n;
/** The largest value of `resource.Quantity`. */
const MOST = (2n ** 63n - 1n) * ONE;

/** Powers of ten, and factors. */
const TENS: Record<string, number> = { n: -9, u: -6, m: -3, '': 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
const FACTORS: Record<string, bigint> = {
  Ki: 2n ** 10n,
  Mi: 2n ** 20n,
  Gi: 2n ** 30n,
  Ti: 2n ** 40n,
  Pi: 2n ** 50n,
  Ei: 2n ** 60n,
};

/** A quantity (`resource.Quantity` of apimachinery) by its value: `1000m` equals `1`, and `1.5Gi` equals `1536Mi`. */
export class Quantity {
  /** The value in billionths, the precision of Kubernetes. */
  readonly nanos: bigint;
  readonly #text: string;

  private constructor(text: string, nanos: bigint) {
    this.#text = text;
    this.nanos = nanos;
  }

  /**
   * Reads a quantity, as the type `t.quantity` has it.
   *
   * @throws {RangeError} if the text is not a quantity.
   */
  static parse(text: string): Quantity {
    const nanos = read(text);
    if (nanos === undefined) {
      throw new RangeError(`${JSON.stringify(text)} is not a quantity like 100m, 2 or 128Mi`);
    }
    return new Quantity(text, nanos);
  }

  /**
   * Compares two quantities by value, for `sort`: the result is -1 if the first is less than the second, 0 if they are equal, and 1
   * otherwise.
   *
   * @throws {RangeError} if a text is not a quantity.
   */
  static compare(first: Quantity | string, second: Quantity | string): number {
    const value = (quantity: Quantity | string) => (typeof quantity === 'string' ? Quantity.parse(quantity) : quantity).nanos;
    const difference = value(first) - value(second);
    return difference < 0n ? -1 : difference > 0n ? 1 : 0;
  }

  /** The value in units: CPUs, bytes. */
  toNumber(): number {
    return Number(this.nanos) / Number(ONE);
  }

  /** The text that was read. */
  toString(): string {
    return this.#text;
  }

  /** The text that was read, so that a child has the notation of the user. */
  toJSON(): string {
    return this.#text;
  }
}

function read(text: string): bigint | undefined {
  const [, sign, whole = '', fraction = '', suffix = ''] =
    /^([+-]?)(?=\.?\d)(\d*)(?:\.(\d*))?([numkMGTPE]|[KMGTPE]i|[eE][+-]?\d{1,2})?$/.exec(text) ?? [];
  if (sign === undefined) {
    return undefined;
  }
  const tens = 9 - fraction.length + (/^[eE]./.test(suffix) && suffix !== 'Ei' ? Number(suffix.slice(1)) : (TENS[suffix] ?? 0));
  let value = BigInt(whole + fraction) * (FACTORS[suffix] ?? 1n);
  if (tens >= 0) {
    value *= 10n ** BigInt(tens);
  } else {
    // Kubernetes rounds away from zero too.
    const divisor = 10n ** BigInt(-tens);
    value = (value + divisor - 1n) / divisor;
  }
  value = value < MOST ? value : MOST;
  return sign === '-' ? -value : value;
}
