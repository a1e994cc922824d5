// Package sha256 hashes bytes with SHA-256. Package crypto/sha256 makes every component of the SDK 150 KB larger, by its self-tests.
package sha256

import (
	"encoding/binary"
	"math/bits"
)

// constants are the fractions of the cube roots of the first 64 primes.
var constants = [64]uint32{
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}

// Sum returns the SHA-256 of bytes.
func Sum(text []byte) [32]byte {
	// The fractions of the square roots of the first 8 primes.
	state := [8]uint32{
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
	}
	// A bit 1, and zeros up to the length in bits, which ends a block.
	padded := append(append(make([]byte, 0, len(text)+72), text...), 0x80)
	for len(padded)%64 != 56 {
		padded = append(padded, 0)
	}
	padded = binary.BigEndian.AppendUint64(padded, uint64(len(text))*8)
	for ; len(padded) > 0; padded = padded[64:] {
		add(&state, padded[:64])
	}
	var sum [32]byte
	for index, word := range state {
		binary.BigEndian.PutUint32(sum[4*index:], word)
	}
	return sum
}

func add(state *[8]uint32, block []byte) {
	var words [64]uint32
	for index := range words {
		if index < 16 {
			words[index] = binary.BigEndian.Uint32(block[4*index:])
			continue
		}
		before, after := words[index-15], words[index-2]
		words[index] = words[index-16] + words[index-7] + (rotated(before, 7) ^ rotated(before, 18) ^ before>>3) +
			(rotated(after, 17) ^ rotated(after, 19) ^ after>>10)
	}
	a, b, c, d, e, f, g, h := state[0], state[1], state[2], state[3], state[4], state[5], state[6], state[7]
	for index, word := range words {
		first := h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + (e&f ^ ^e&g) + constants[index] + word
		second := (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + (a&b ^ a&c ^ b&c)
		a, b, c, d, e, f, g, h = first+second, a, b, c, d+first, e, f, g
	}
	for index, word := range [8]uint32{a, b, c, d, e, f, g, h} {
		state[index] += word
	}
}

// rotated is a word rotated to the right.
func rotated(word uint32, by int) uint32 {
	return bits.RotateLeft32(word, -by)
}
