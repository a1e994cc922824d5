import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const readme = readFileSync(join(root, 'README.md'), 'utf8');

/**
 * The block of code after a text.
 *
 * @param {string} text
 */
function blockAfter(text) {
  const [, block] = /```\w+\n(.*?)```/s.exec(readme.slice(readme.indexOf(text))) ?? [];
  return block ?? assert.fail(`no block after ${text}`);
}

test('the plugin of the README is type-checked and passes its tests', () => {
  const folder = mkdtempSync(join(tmpdir(), 'windlass-'));
  /** @param {string[]} command */
  const node = (...command) => {
    const { PATH, WINDLASS } = process.env;
    const env = { PATH, WINDLASS, UPDATE_EXPECT: '1' };
    execFileSync(process.execPath, command, { cwd: folder, env, encoding: 'utf8' });
  };
  try {
    for (const path of ['src', 'test', 'cases', 'node_modules/@windlass']) {
      mkdirSync(join(folder, path), { recursive: true });
    }
    symlinkSync(root, join(folder, 'node_modules/@windlass/plugin'));
    symlinkSync(join(root, 'node_modules/@types'), join(folder, 'node_modules/@types'));
    for (const file of ['src/plugin.js', 'package.json', 'tsconfig.json', 'test/plugin.test.js']) {
      writeFileSync(join(folder, file), blockAfter(`\`${file}\``));
    }
    writeFileSync(join(folder, 'cases/ada.yaml'), 'description: Ada\nparent: {metadata: {name: hi}, spec: {name: Ada}}\n');

    node(join(root, 'node_modules/typescript/bin/tsc'));
    node('--test', 'test/');
    assert.match(readFileSync(join(folder, 'cases/ada.answer.yaml'), 'utf8'), /greeting: Hello, Ada!/);
    assert.match(readFileSync(join(folder, 'crd.json'), 'utf8'), /greetings\.example\.com/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
