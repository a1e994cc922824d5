import assert from 'node:assert/strict';
import test from 'node:test';

import { Quantity } from '@windlass/plugin';

const ONE = 10n ** 9n;
/** @param {string} text */
const nanos = (text) => Quantity.parse(text).nanos;

test('every suffix has the value of Kubernetes', () => {
  ['n', 'u', 'm', '', 'k', 'M', 'G', 'T', 'P', 'E'].forEach((suffix, power) => {
    assert.equal(nanos(`1${suffix}`), 1000n ** BigInt(power), suffix);
  });
  ['Ki', 'Mi', 'Gi', 'Ti', 'Pi'].forEach((suffix, power) => {
    assert.equal(nanos(`1${suffix}`), 1024n ** BigInt(power + 1) * ONE, suffix);
  });
});

test('every notation is read', () => {
  const pairs = {
    '1.5Gi': '1536Mi',
    '.5': '500m',
    '5.': '5',
    '+2': '2',
    '1e3': '1k',
    '1E3': '1k',
    '1e-3': '1m',
    '1E+2': '100',
    '0100': '100',
    '0.1Ki': '102.4',
  };
  for (const [text, same] of Object.entries(pairs)) {
    assert.equal(nanos(text), nanos(same), text);
  }
  assert.equal(nanos('-1'), -ONE);
});

test('a fraction of a billionth is rounded up, and the maximum is kept', () => {
  assert.equal(nanos('0.1n'), 1n);
  assert.equal(nanos('1.0000000001'), ONE + 1n);
  assert.equal(nanos('16Ei'), (2n ** 63n - 1n) * ONE);
  assert.equal(nanos('1e19'), (2n ** 63n - 1n) * ONE);
});

test('other text is not a quantity', () => {
  const texts = ['', '.', '-', '1.2.3', '1 Gi', 'Gi', '1gi', '1K', '1e', '1ee3', '1e1.5', 'one', '1Mi ', '--1', '1e999'];
  for (const text of texts) {
    assert.throws(() => Quantity.parse(text), { message: `${JSON.stringify(text)} is not a quantity like 100m, 2 or 128Mi` });
  }
});

test('quantities are compared by value and written as they were read', () => {
  assert.deepEqual(['2Gi', '1000m', '1536Mi'].sort(Quantity.compare), ['1000m', '1536Mi', '2Gi']);
  assert.equal(Quantity.compare('1000m', Quantity.parse('1')), 0);
  assert.equal(Quantity.parse('1.5Ki').toNumber(), 1536);
  assert.equal(JSON.stringify({ cpu: Quantity.parse('1000m') }), '{"cpu":"1000m"}');
});
