package windlass

import (
	"encoding/json"
	"testing"
)

func amount(t *testing.T, text string) Quantity {
	t.Helper()
	quantity, err := ParseQuantity(text)
	if err != nil {
		t.Fatal(err)
	}
	return quantity
}

func TestEveryNotationOfAQuantityIsRead(t *testing.T) {
	for text, same := range map[string]string{
		"1.5Gi": "1536Mi", ".5": "500m", "5.": "5", "+2": "2", "1e3": "1k", "1E3": "1k", "1e-3": "1m", "1E+2": "100", "0100": "100",
		"0.1Ki": "102.4", "1000n": "1u", "1000u": "1m", "1000m": "1", "1000": "1k", "1000k": "1M", "1000M": "1G", "1000G": "1T",
		"1000T": "1P", "1000P": "1E", "1024Ki": "1Mi", "1024Mi": "1Gi", "1024Gi": "1Ti", "1024Ti": "1Pi", "1024Pi": "1Ei",
		"0.1n": "1n", "1.0000000001": "1.000000001", "16Ei": "9223372036854775807", "1e19": "9223372036854775807", "-0": "0",
		"1e-99": "1n", "0e99": "0", "1e30": "16Ei", "1e99": "16Ei", "-1e30": "-16Ei",
		"1000000000000000000000000000000000000000.5Ei": "16Ei", "1000000000000000000000000000000000000000e-39": "1",
		"1.0000000000000000000000000000000000000001Ki": "1024.000000001",
	} {
		if amount(t, text).Compare(amount(t, same)) != 0 {
			t.Errorf("%s is not %s", text, same)
		}
	}
}

func TestOtherTextIsNoQuantity(t *testing.T) {
	for _, text := range []string{
		"", ".", "-", "1.2.3", "1 Gi", "Gi", "1gi", "1K", "1e", "1ee3", "1e1.5", "one", "1Mi ", "--1", "1e999", "1 ", "1nu",
	} {
		if quantity, err := ParseQuantity(text); err == nil {
			t.Errorf("%q is read as %v", text, quantity.Float64())
		}
	}
}

func TestQuantitiesAreComparedByValue(t *testing.T) {
	ordered := []string{"-1Ei", "-1", "-1m", "0", "1n", "100m", "0.2", "1", "1023", "1Ki", "1E", "1Ei"}
	for one := range ordered {
		for other := range ordered {
			compared := amount(t, ordered[one]).Compare(amount(t, ordered[other]))
			if (compared < 0) != (one < other) || (compared > 0) != (one > other) {
				t.Errorf("%s and %s: %d", ordered[one], ordered[other], compared)
			}
		}
		if amount(t, ordered[one]).IsPositive() != (one > 3) {
			t.Errorf("%s is positive: %v", ordered[one], one <= 3)
		}
	}
	if value := amount(t, "1.5Ki").Float64(); value != 1536 {
		t.Error(value)
	}
}

func TestQuantityIsWrittenAsItWasRead(t *testing.T) {
	var quantities []Quantity
	if err := json.Unmarshal([]byte(`["1000m", 2, 536870912]`), &quantities); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(append(quantities, Quantity{}))
	if err != nil || string(text) != `["1000m","2","536870912","0"]` {
		t.Error(string(text), err)
	}
}

func TestIntOrStringKeepsItsType(t *testing.T) {
	var values []IntOrString
	if err := json.Unmarshal([]byte(`[8080, "http"]`), &values); err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(values); err != nil || string(text) != `[8080,"http"]` {
		t.Error(string(text), err)
	}
}
