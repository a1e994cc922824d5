package schema

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

var patterns = []string{
	Quantity, Names["image"].Pattern, Names["dns-label"].Pattern, Names["dns-subdomain"].Pattern,
	"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", "^[-._a-zA-Z][-._a-zA-Z0-9]*$",
	"", "a", "a|b", "(a|b)*c", "^(a|bc){2,3}$", "^a{2}$", "^a{2,}$", "a?b+", "^(?:ab?)+$", "^(a*)*$", "^(|a)+b$", `^\d+\.\d*$`,
	`^[\w.-]+@[\w-]+(\.[\w-]+)+$`, `^[^/]+/[^/]*$`, "[]a]", "[^]a]", "^.$", `\(`, "[a-]", "^((a|b)|c?)$", "$^", "^$", `^[\]\\]+$`,
	"a{0}b", "^é+$", "x*", `^[+\-*]$`,
}

func TestPatternMatchesAsRegexpDoes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	alphabet := []rune("abcxAZ09-._/@ \n+é*]\\(eEiKMm")
	for _, text := range patterns {
		compiled, err := compilePattern(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		other := regexp.MustCompile(text)
		for range 3000 {
			runes := make([]rune, random.IntN(8))
			for index := range runes {
				runes[index] = alphabet[random.IntN(len(alphabet))]
			}
			if word := string(runes); compiled.matches(word) != other.MatchString(word) {
				t.Errorf("%s: %q matches: %v", text, word, compiled.matches(word))
			}
		}
	}
}

func TestOtherSyntaxIsAnError(t *testing.T) {
	for _, text := range []string{
		"(?i)a", `\bword`, `\pL`, "[[:alpha:]]", "(a", "a)", "[a", "*", "a**", `\`, "a{x}", "a{3,2}", "[b-a]", "((a{1000}){1000}){1000}",
	} {
		if _, err := compilePattern(text); err == nil {
			t.Errorf("%s is compiled", text)
		}
	}
}

func TestPatternOfManyRepetitionsIsMatchedInShortTime(t *testing.T) {
	compiled, err := compilePattern("^(a*)*(a|aa)*(a+)+$")
	if err != nil || compiled.matches(strings.Repeat("a", 50_000)+"b") {
		t.Error(err)
	}
}
