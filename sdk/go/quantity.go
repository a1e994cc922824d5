package windlass

import (
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"windlass.dev/plugin/internal/jsondoc"
)

// Quantity is an amount as Kubernetes writes it (resource.Quantity of apimachinery): a decimal number with an optional suffix,
// like 100m, 2, 128Mi or 1e3. It is encoded as it was read, so that a child has the notation of the user. The zero value is 0.
type Quantity struct {
	text string
	// The value in billionths, the precision of Kubernetes.
	isNegative bool
	high, low  uint64
}

// ParseQuantity reads a quantity. It returns an error if the text is not one. A value beyond the largest of Kubernetes (2^63-1) is
// read as that one, and digits beyond billionths are rounded away from zero, as Kubernetes does.
func ParseQuantity(text string) (Quantity, error) {
	isNegative, high, low, isQuantity := readQuantity(text)
	if !isQuantity {
		return Quantity{}, fmt.Errorf("%q is not a quantity like 100m, 2 or 128Mi", text)
	}
	return Quantity{text, isNegative, high, low}, nil
}

// MustQuantity reads a quantity that is part of the program, like a default. It panics if the text is not a quantity.
func MustQuantity(text string) Quantity {
	quantity, err := ParseQuantity(text)
	if err != nil {
		panic(err)
	}
	return quantity
}

// String returns the quantity as it was read.
func (q Quantity) String() string {
	if q.text == "" {
		return "0"
	}
	return q.text
}

// Float64 returns the value in units: CPUs, bytes.
func (q Quantity) Float64() float64 {
	value := (float64(q.high)*(1<<64) + float64(q.low)) / 1e9
	if q.isNegative {
		return -value
	}
	return value
}

// IsPositive tells whether the value is greater than zero.
func (q Quantity) IsPositive() bool {
	return !q.isNegative && (q.high|q.low) != 0
}

// Compare compares two quantities by value: 0 if they are equal, as 1000m and 1; -1 if q is less than other; otherwise 1.
func (q Quantity) Compare(other Quantity) int {
	if q.high|q.low|other.high|other.low == 0 {
		return 0
	}
	if q.isNegative != other.isNegative {
		if q.isNegative {
			return -1
		}
		return 1
	}
	larger := 1
	if q.isNegative {
		larger = -1
	}
	switch {
	case q.high > other.high || q.high == other.high && q.low > other.low:
		return larger
	case q.high == other.high && q.low == other.low:
		return 0
	}
	return -larger
}

// MarshalJSON encodes the quantity as a string, as it was read.
func (q Quantity) MarshalJSON() ([]byte, error) {
	return json.Marshal(q.String())
}

// UnmarshalJSON reads a string or a whole number; null changes nothing. It returns an error if the value is not a quantity.
func (q *Quantity) UnmarshalJSON(document []byte) (err error) {
	text := string(document)
	if text == "null" {
		return nil
	}
	if strings.HasPrefix(text, `"`) {
		if err = json.Unmarshal(document, &text); err != nil {
			return err
		}
	}
	*q, err = ParseQuantity(text)
	return err
}

// The largest value of resource.Quantity, in billionths: 2^63-1.
var mostHigh, mostLow = bits.Mul64(1<<63-1, 1e9)

func readQuantity(text string) (isNegative bool, high, low uint64, isQuantity bool) {
	isNegative = strings.HasPrefix(text, "-")
	if isNegative || strings.HasPrefix(text, "+") {
		text = text[1:]
	}
	number, suffix := text, ""
	if end := strings.IndexFunc(text, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); end >= 0 {
		number, suffix = text[:end], text[end:]
	}
	whole, fraction, _ := strings.Cut(number, ".")
	factor, tens, isSuffix := scale(suffix)
	if whole == "" && fraction == "" || strings.Contains(fraction, ".") || !isSuffix {
		return false, 0, 0, false
	}
	// The digits of the number times the factor, the last one first: exact, however many there are.
	var digits []byte
	carry := uint64(0)
	for _, digit := range slices.Backward([]byte(whole + fraction)) {
		carry += uint64(digit-'0') * factor
		digits = append(digits, byte(carry%10))
		carry /= 10
	}
	for ; carry > 0; carry /= 10 {
		digits = append(digits, byte(carry%10))
	}
	isBeyond := false
	appendDigit := func(digit byte) {
		lost, shifted := bits.Mul64(high, 10)
		upper, lower := bits.Mul64(low, 10)
		sum, carry := bits.Add64(lower, uint64(digit), 0)
		upper, overflow := bits.Add64(shifted, upper, carry)
		high, low = upper, sum
		isBeyond = isBeyond || lost|overflow != 0
	}
	// The last digit counts billionths times this power of ten.
	power := tens + 9 - len(fraction)
	isInexact := false
	for index, digit := range slices.Backward(digits) {
		if index+power >= 0 {
			appendDigit(digit)
		} else {
			isInexact = isInexact || digit != 0
		}
	}
	for range power {
		appendDigit(0)
	}
	if isInexact {
		// Kubernetes rounds away from zero too.
		var carry uint64
		low, carry = bits.Add64(low, 1, 0)
		high += carry
	}
	if isBeyond || high > mostHigh || high == mostHigh && low > mostLow {
		high, low = mostHigh, mostLow
	}
	return isNegative, high, low, true
}

// scale is the multiplier of a suffix: a factor, and a power of ten.
func scale(suffix string) (factor uint64, tens int, isSuffix bool) {
	if rest := strings.TrimLeft(suffix, "eE"); len(suffix) > 1 && len(rest) == len(suffix)-1 && rest != "i" {
		tens, err := strconv.Atoi(rest)
		return 1, tens, err == nil && -99 <= tens && tens <= 99
	}
	if suffix == "" {
		return 1, 0, true
	}
	if letter, isBinary := strings.CutSuffix(suffix, "i"); isBinary {
		power := strings.Index("KMGTPE", letter)
		return 1 << (10 * (power + 1)), 0, len(letter) == 1 && power >= 0
	}
	power := strings.Index("num kMGTPE", suffix)
	return 1, 3 * (power - 3), len(suffix) == 1 && power >= 0 && suffix != " "
}

// IntOrString is a whole number or a text, like a port by its number or its name.
type IntOrString struct {
	// Text is empty for a number.
	Text string
	// Int is 0 for a text.
	Int int64
}

// String returns the text, or the number in digits.
func (v IntOrString) String() string {
	if v.Text != "" {
		return v.Text
	}
	return strconv.FormatInt(v.Int, 10)
}

// MarshalJSON encodes a number or a string.
func (v IntOrString) MarshalJSON() ([]byte, error) {
	if v.Text != "" {
		return json.Marshal(v.Text)
	}
	return json.Marshal(v.Int)
}

// UnmarshalJSON reads a number or a string.
func (v *IntOrString) UnmarshalJSON(document []byte) error {
	if len(document) > 0 && document[0] == '"' {
		return json.Unmarshal(document, &v.Text)
	}
	if err := json.Unmarshal(document, &v.Int); err != nil {
		return fmt.Errorf("%s is not a whole number or a string", jsondoc.Show(document))
	}
	return nil
}
