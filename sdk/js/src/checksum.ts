/** A checksum of values, for annotations. */

import { stringify } from './json.js';

/**
 * A short text that is the same for the same values, in every language: the first 16 hexadecimal digits of SHA-256 over the JSON list of
 * the values, with sorted keys and without spaces. As an annotation of a Pod template, it restarts the Pods when a ConfigMap or a Secret
 * changes that the plugin returns.
 *
 * ```ts
 * metadata: { annotations: { 'example.com/config': checksum(configMap.data) } }
 * ```
 *
 * @throws {TypeError} if a value is not JSON.
 */
export function checksum(...values: unknown[]): string {
  return sha256(encoder.encode(canonical(values))).slice(0, 16);
}

const encoder = new TextEncoder();

/** JSON with sorted keys. An object would not keep their order: those that are numbers come first. */
function canonical(value: any): string {
  if (Array.isArray(value)) {
    return `[${value.map(canonical).join()}]`;
  }
  if (typeof value !== 'object' || value === null || typeof value.toJSON === 'function') {
    return stringify(value);
  }
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  const sorted = fields.sort(([first], [second]) => compare(encoder.encode(first), encoder.encode(second)));
  return `{${sorted.map(([name, field]) => `${JSON.stringify(name)}:${canonical(field)}`).join()}}`;
}

/** The order of the bytes: that of strings is another one in JavaScript. */
function compare(first: Uint8Array, second: Uint8Array): number {
  const at = first.findIndex((byte, index) => byte !== second[index]);
  return at < 0 ? first.length - second.length : first[at]! - (second[at] ?? -1);
}

const CONSTANTS = Int32Array.of(
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
  0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
  0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
  0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
  0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
  0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
  0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
  0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
);

/** SHA-256 in hexadecimal digits. The engine's own is asynchronous, and there is nothing to wait for in a call. */
function sha256(message: Uint8Array): string {
  const padded = new Uint8Array(((message.length + 8) >> 6) * 64 + 64);
  padded.set(message);
  padded[message.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - 8, BigInt(message.length) * 8n);
  const state = Int32Array.of(0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19);
  for (let offset = 0; offset < padded.length; offset += 64) {
    addBlock(state, view, offset);
  }
  return [...state].map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
}

// Without iterators, functions and unsigned numbers, which are slow in a component.
function addBlock(state: Int32Array, view: DataView, offset: number): void {
  const words = new Int32Array(64);
  let a = state[0]!;
  let b = state[1]!;
  let c = state[2]!;
  let d = state[3]!;
  let e = state[4]!;
  let f = state[5]!;
  let g = state[6]!;
  let h = state[7]!;
  for (let index = 0; index < 64; index++) {
    if (index < 16) {
      words[index] = view.getInt32(offset + 4 * index);
    } else {
      const early = words[index - 15]!;
      const late = words[index - 2]!;
      const first = ((early >>> 7) | (early << 25)) ^ ((early >>> 18) | (early << 14)) ^ (early >>> 3);
      const second = ((late >>> 17) | (late << 15)) ^ ((late >>> 19) | (late << 13)) ^ (late >>> 10);
      words[index] = words[index - 16]! + words[index - 7]! + first + second;
    }
    const sumOfE = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    const choice = (e & f) ^ (~e & g);
    const added = h + sumOfE + choice + CONSTANTS[index]! + words[index]!;
    const sumOfA = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    const majority = (a & b) ^ (a & c) ^ (b & c);
    h = g;
    g = f;
    f = e;
    e = (d + added) | 0;
    d = c;
    c = b;
    b = a;
    a = (added + sumOfA + majority) | 0;
  }
  [a, b, c, d, e, f, g, h].forEach((word, index) => (state[index] = state[index]! + word));
}
