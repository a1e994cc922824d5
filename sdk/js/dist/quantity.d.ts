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
    /**
     * Compares two quantities by value, for `sort`: the result is -1 if the first is less than the second, 0 if they are equal, and 1
     * otherwise.
     *
     * @throws {RangeError} if a text is not a quantity.
     */
    static compare(first: Quantity | string, second: Quantity | string): number;
    /** The value in units: CPUs, bytes. */
    toNumber(): number;
    /** The text that was read. */
    toString(): string;
    /** The text that was read, so that a child has the notation of the user. */
    toJSON(): string;
}
