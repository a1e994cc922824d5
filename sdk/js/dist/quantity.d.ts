/** Quantities as Kubernetes writes them. */
/** A quantity (`resource.Quantity` of apimachinery) by its value: `1000m` equals `1`, and `1.5Gi` equals `1536Mi`. */
export declare class Quantity {
    #private;
    /** The value in billionths, the precision of Kubernetes. */
    readonly nanos: bigint;
    private constructor();
    /**
     * Reads a quantity, as the type `t.quantity` has it.
     *
     * @throws {RangeError} if the text is not a quantity.
     */
    static parse(text: string): Quantity;
    /** Negative if the first quantity is less than the second, zero if they are equal: for `sort`. */
    static compare(first: Quantity | string, second: Quantity | string): number;
    /** The value in units: CPUs, bytes. */
    toNumber(): number;
    /** The text that was read. */
    toString(): string;
    /** The text that was read, so that a child has the notation of the user. */
    toJSON(): string;
}
