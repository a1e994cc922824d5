package schema

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// pattern is a regular expression of a schema. Package regexp would be a tenth of a component; this reads the syntax that
// schemas use, and matches in time proportional to the text.
type pattern struct {
	program []step
}

type operation uint8

const (
	opRange operation = iota // A character of the set.
	opSplit                  // Goes on at both targets.
	opBegin                  // The beginning of the text.
	opEnd                    // The end of the text.
	opMatch
)

type step struct {
	operation operation
	set       set
	one, two  int
}

// set is a set of characters: pairs of the first and the last one.
type set struct {
	pairs     []rune
	isInverse bool
}

func (s set) has(char rune) bool {
	for index := 0; index < len(s.pairs); index += 2 {
		if s.pairs[index] <= char && char <= s.pairs[index+1] {
			return !s.isInverse
		}
	}
	return s.isInverse
}

var errSyntax = errors.New("the pattern is not of the syntax that is checked")

// maxSteps bounds repetitions of repetitions.
const maxSteps = 10000

// compilePattern reads a pattern. An error means syntax beyond the subset: groups with flags, classes of Unicode, \b.
func compilePattern(text string) (*pattern, error) {
	parser := parser{rest: text}
	alternatives, err := parser.alternatives()
	if err != nil {
		return nil, err
	}
	if parser.rest != "" {
		return nil, errSyntax
	}
	compiled := &pattern{}
	if !compiled.add(alternatives) {
		return nil, errSyntax
	}
	compiled.program = append(compiled.program, step{operation: opMatch})
	return compiled, nil
}

// node is a part of a pattern.
type node struct {
	// alternatives are of a group, which is repeated from least to most times; nil for a step.
	alternatives [][]node
	step         step
	least, most  int
}

type parser struct {
	rest  string
	depth int
}

func (p *parser) next() (char rune, isLeft bool) {
	char, size := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[size:]
	return char, size > 0
}

func (p *parser) alternatives() ([][]node, error) {
	if p.depth++; p.depth > 100 {
		return nil, errSyntax
	}
	defer func() { p.depth-- }()
	all := [][]node{nil}
	for p.rest != "" && p.rest[0] != ')' {
		if p.rest[0] == '|' {
			p.rest = p.rest[1:]
			all = append(all, nil)
			continue
		}
		node, err := p.node()
		if err != nil {
			return nil, err
		}
		all[len(all)-1] = append(all[len(all)-1], node)
	}
	return all, nil
}

func (p *parser) node() (node, error) {
	node := node{least: 1, most: 1}
	char, _ := p.next()
	switch char {
	case '(':
		p.rest = strings.TrimPrefix(p.rest, "?:")
		if strings.HasPrefix(p.rest, "?") {
			return node, errSyntax
		}
		inner, err := p.alternatives()
		if err != nil || !strings.HasPrefix(p.rest, ")") {
			return node, errSyntax
		}
		p.rest = p.rest[1:]
		node.alternatives = inner
	case '[':
		set, err := p.class()
		if err != nil {
			return node, err
		}
		node.step.set = set
	case '.':
		node.step.set = set{pairs: []rune{'\n', '\n'}, isInverse: true}
	case '^':
		node.step.operation = opBegin
	case '$':
		node.step.operation = opEnd
	case '\\':
		set, err := p.escape()
		if err != nil {
			return node, err
		}
		node.step.set = set
	case '*', '+', '?', utf8.RuneError:
		return node, errSyntax
	default:
		node.step.set = set{pairs: []rune{char, char}}
	}
	return node, p.repeat(&node)
}

// repeat reads what follows a part. How greedy it is does not matter here.
func (p *parser) repeat(node *node) error {
	if p.rest == "" {
		return nil
	}
	switch p.rest[0] {
	case '*':
		node.least, node.most = 0, math.MaxInt
	case '+':
		node.most = math.MaxInt
	case '?':
		node.least = 0
	case '{':
		bounds, rest, isClosed := strings.Cut(p.rest[1:], "}")
		least, most, isRange := strings.Cut(bounds, ",")
		var err error
		if node.least, err = strconv.Atoi(least); err != nil || !isClosed {
			return errSyntax
		}
		switch {
		case !isRange:
			node.most = node.least
		case most == "":
			node.most = math.MaxInt
		default:
			if node.most, err = strconv.Atoi(most); err != nil {
				return errSyntax
			}
		}
		if node.least < 0 || node.most < node.least || node.least > maxSteps {
			return errSyntax
		}
		p.rest = "{" + rest
	default:
		return nil
	}
	p.rest = strings.TrimPrefix(p.rest[1:], "?")
	if p.rest != "" && strings.ContainsRune("*+?{", rune(p.rest[0])) {
		return errSyntax
	}
	return nil
}

// escape reads the character after a backslash.
func (p *parser) escape() (set, error) {
	char, isLeft := p.next()
	if !isLeft {
		return set{}, errSyntax
	}
	switch char {
	case 'd', 'D':
		return set{[]rune{'0', '9'}, char == 'D'}, nil
	case 's', 'S':
		return set{[]rune{'\t', '\n', '\f', '\r', ' ', ' '}, char == 'S'}, nil
	case 'w', 'W':
		return set{[]rune{'0', '9', 'A', 'Z', '_', '_', 'a', 'z'}, char == 'W'}, nil
	case 't':
		char = '\t'
	case 'n':
		char = '\n'
	case 'r':
		char = '\r'
	case 'f':
		char = '\f'
	default:
		if char >= utf8.RuneSelf || char >= '0' && char <= '9' || char >= 'A' && char <= 'Z' || char >= 'a' && char <= 'z' {
			return set{}, errSyntax
		}
	}
	return set{pairs: []rune{char, char}}, nil
}

// class reads a class after its opening bracket.
func (p *parser) class() (set, error) {
	class := set{}
	if strings.HasPrefix(p.rest, "^") {
		class.isInverse, p.rest = true, p.rest[1:]
	}
	for isFirst := true; ; isFirst = false {
		char, isLeft := p.next()
		if !isLeft || char == '[' && strings.HasPrefix(p.rest, ":") {
			return class, errSyntax
		}
		if char == ']' && !isFirst {
			return class, nil
		}
		if char == '\\' {
			inner, err := p.escape()
			if err != nil || inner.isInverse {
				return class, errSyntax
			}
			if len(inner.pairs) != 2 || inner.pairs[0] != inner.pairs[1] {
				class.pairs = append(class.pairs, inner.pairs...)
				continue
			}
			char = inner.pairs[0]
		}
		last := char
		if len(p.rest) > 1 && p.rest[0] == '-' && p.rest[1] != ']' {
			p.rest = p.rest[1:]
			if last, _ = p.next(); last == '\\' {
				inner, err := p.escape()
				if err != nil || len(inner.pairs) != 2 || inner.pairs[0] != inner.pairs[1] {
					return class, errSyntax
				}
				last = inner.pairs[0]
			}
			if last < char {
				return class, errSyntax
			}
		}
		class.pairs = append(class.pairs, char, last)
	}
}

// add compiles alternatives. It is false if the program becomes too long.
func (p *pattern) add(alternatives [][]node) bool {
	var ends []int
	for index, nodes := range alternatives {
		split := -1
		if index < len(alternatives)-1 {
			split = p.split()
		}
		for _, node := range nodes {
			if !p.addNode(node) {
				return false
			}
		}
		if split >= 0 {
			ends = append(ends, p.split())
			p.program[split].two = len(p.program)
		}
	}
	for _, end := range ends {
		p.program[end].one, p.program[end].two = len(p.program), len(p.program)
	}
	return true
}

// split adds a step that goes on at the next step, and at another.
func (p *pattern) split() int {
	at := len(p.program)
	p.program = append(p.program, step{operation: opSplit, one: at + 1, two: at + 1})
	return at
}

func (p *pattern) addNode(node node) bool {
	once := func() bool {
		if len(p.program) > maxSteps {
			return false
		}
		if node.alternatives != nil {
			return p.add(node.alternatives)
		}
		p.program = append(p.program, node.step)
		return true
	}
	for range node.least {
		if !once() {
			return false
		}
	}
	if node.most == math.MaxInt {
		split := p.split()
		if !once() {
			return false
		}
		back := p.split()
		p.program[back].one, p.program[back].two = split, split
		p.program[split].two = len(p.program)
		return true
	}
	var splits []int
	for range node.most - node.least {
		splits = append(splits, p.split())
		if !once() {
			return false
		}
	}
	for _, split := range splits {
		p.program[split].two = len(p.program)
	}
	return true
}

// matches tells whether any part of a text matches.
func (p *pattern) matches(text string) bool {
	var present, following states
	present.init(len(p.program))
	following.init(len(p.program))
	for at := 0; ; {
		// A match may begin at every character.
		if p.follow(&present, 0, at, len(text)) {
			return true
		}
		if at == len(text) {
			return false
		}
		char, size := utf8.DecodeRuneInString(text[at:])
		at += size
		following.clear()
		for _, index := range present.list {
			if step := &p.program[index]; step.operation == opRange && step.set.has(char) {
				if p.follow(&following, index+1, at, len(text)) {
					return true
				}
			}
		}
		present, following = following, present
	}
}

// states are steps of a program.
type states struct {
	list  []int
	isSet []bool
}

func (s *states) init(size int) { s.isSet = make([]bool, size) }

func (s *states) clear() {
	for _, index := range s.list {
		s.isSet[index] = false
	}
	s.list = s.list[:0]
}

// follow adds a step and all that it leads to without a character. It tells whether the pattern matches.
func (p *pattern) follow(to *states, first, at, end int) bool {
	stack := []int{first}
	for len(stack) > 0 {
		index := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if to.isSet[index] {
			continue
		}
		to.isSet[index] = true
		to.list = append(to.list, index)
		switch step := &p.program[index]; step.operation {
		case opMatch:
			return true
		case opSplit:
			stack = append(stack, step.two, step.one)
		case opBegin:
			if at == 0 {
				stack = append(stack, index+1)
			}
		case opEnd:
			if at == end {
				stack = append(stack, index+1)
			}
		}
	}
	return false
}
