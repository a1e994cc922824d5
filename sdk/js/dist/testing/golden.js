/**
 * Golden cases: a folder of requests, and beside each the expected response.
 *
 * `scale-up.yaml` is a request: a parent and the live objects.
 *
 * ```yaml
 * description: The second Pod is missing
 * parent: {metadata: {name: web}, spec: {replicas: 2, image: nginx}}
 * children:                       # optional, as `related` (by requirement), `config` and `at` (the time)
 *   - {apiVersion: v1, kind: Pod, metadata: {name: web-0}}
 * ```
 *
 * `finalize: true` asks the plugin to clean up, for the `cause` `deleted`, `leftSelector` or `leftNamespaces`, perhaps with
 * `namespaceTerminating: true`. `kinds` (`{apiVersion, kind}`) are the optional kinds that exist, all by default, and `closedNamespaces` the
 * namespaces in which the host refuses children.
 *
 * `scale-up.answer.yaml` is the response. `UPDATE_EXPECT=1 node --test` writes it, for review.
 *
 * `windlass test --cases` reads the same files.
 */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import test from 'node:test';
import { fileURLToPath } from 'node:url';
// Node.js has no reader of YAML.
import { parse, stringify as toYaml } from 'yaml';
import { stringify } from '../json.js';
import { attempt, crd } from './index.js';
import { written } from './response.js';
/** The fields of a case's file. */
const FIELDS = [
    'description',
    'parent',
    'children',
    'related',
    'config',
    'finalize',
    'cause',
    'namespaceTerminating',
    'kinds',
    'closedNamespaces',
    'at',
];
const CAUSES = {
    deleted: 'deleted',
    leftSelector: 'left-selector',
    leftNamespaces: 'left-namespaces',
};
const isUpdating = () => process.env['UPDATE_EXPECT'] === '1';
/** Makes a test of node's test runner of each case in a folder. A relative path starts at the working directory. */
export function golden(plugin, folder, options = {}) {
    for (const { name, check } of goldenCases(plugin, folder, options)) {
        test(name, check);
    }
}
/**
 * The cases in a folder, in the order of their names, for another test runner.
 *
 * @throws if the folder has no case, if a file cannot be read, and if a response has no request.
 */
export function goldenCases(plugin, folder, options = {}) {
    const path = pathOf(folder);
    const files = readdirSync(path).filter((file) => file.endsWith('.yaml')).sort();
    const cases = files.filter((file) => !file.endsWith('.answer.yaml')).map((file) => goldenCase(plugin, join(path, file), options));
    assert.notEqual(cases.length, 0, `${path} has no cases`);
    for (const file of files.filter((file) => file.endsWith('.answer.yaml'))) {
        assert(cases.some(({ name }) => file === `${name}.answer.yaml`), `${join(path, file)} has no request`);
    }
    return cases;
}
/**
 * Compares the plugin's CRD with a file, whose order of fields does not matter. The component does not need the file: it shows changes
 * of the CRD in reviews.
 *
 * @throws if they differ. With `UPDATE_EXPECT=1` the file is written instead.
 */
export function checkCrd(plugin, file) {
    const path = pathOf(file);
    const actual = crd(plugin);
    const expected = existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : undefined;
    compare(actual, expected, path, () => `${stringify(sorted(actual), ' ')}\n`);
}
function pathOf(file) {
    return resolve(typeof file === 'string' ? file : fileURLToPath(file));
}
/** Reads YAML with whole numbers as the SDK reads them from JSON. */
function read(file) {
    return parse(readFileSync(file, 'utf8'), (_, value) => (isExact(value) ? Number(value) : value), { intAsBigInt: true });
}
function isExact(value) {
    return typeof value === 'bigint' && Number.isSafeInteger(Number(value));
}
function goldenCase(plugin, file, { invalid = 'message' }) {
    const content = read(file);
    const missing = ['description', 'parent'].find((field) => content[field] === undefined);
    assert.equal(missing, undefined, `${file} has no ${missing}`);
    const unknown = Object.keys(content).find((field) => !FIELDS.includes(field));
    assert.equal(unknown, undefined, `${file} has the unknown field ${unknown}`);
    const options = optionsOf(content);
    const answer = file.replace(/\.yaml$/, '.answer.yaml');
    const check = () => {
        const outcome = document(attempt(plugin, options));
        assert.deepEqual(document(attempt(plugin, options)), outcome, 'the same request has two responses');
        const expected = existsSync(answer) ? read(answer) : undefined;
        if (invalid === 'field' && fieldOf(outcome) !== undefined && fieldOf(outcome) === fieldOf(expected)) {
            return;
        }
        compare(outcome, expected, answer, () => toYaml(outcome, { sortMapEntries: true, indentSeq: false, lineWidth: 0 }));
    };
    return { name: basename(file, '.yaml'), options, check };
}
function optionsOf({ description: _, cause, kinds: present, ...options }) {
    return {
        ...options,
        ...(cause && { cause: CAUSES[cause] ?? assert.fail(`${cause} is not a cause: ${Object.keys(CAUSES).join(', ')}`) }),
        ...(present && { kinds: present.map(({ apiVersion, kind }) => ({ apiVersion, name: kind })) }),
    };
}
/** The field that an `invalid` failure names. */
function fieldOf(outcome) {
    return outcome?.invalid?.split(': ')[0];
}
function compare(actual, expected, file, text) {
    if (!isUpdating()) {
        assert.notEqual(expected, undefined, `${file} is missing: UPDATE_EXPECT=1 writes it`);
        assert.deepEqual(actual, expected);
        return;
    }
    try {
        assert.deepEqual(actual, expected);
    }
    catch {
        writeFileSync(file, text());
    }
}
/** A response for review, without empty fields. */
function document({ response, failure }) {
    if (failure !== undefined) {
        return { [failure.type]: failure.message };
    }
    const { options, ...fields } = written(response);
    const all = {
        children: response.children,
        options: response.options.every(isEmpty) ? undefined : options,
        ...fields,
        logs: response.logs.map(({ message }) => message),
        spanAttributes: response.spanAttributes,
        spanEvents: response.spanEvents.map(({ name }) => name),
        measurements: response.measurements,
    };
    return Object.fromEntries(Object.entries(all).filter(([, value]) => !isEmpty(value)));
}
function isEmpty(value) {
    return value === undefined || value === false || (typeof value === 'object' && value !== null && Object.keys(value).length === 0);
}
/** With the fields of objects in alphabetical order. */
function sorted(value) {
    if (Array.isArray(value)) {
        return value.map(sorted);
    }
    if (typeof value !== 'object' || value === null) {
        return value;
    }
    const entries = Object.entries(value).map(([name, value]) => [name, sorted(value)]);
    return Object.fromEntries(entries.sort(([first], [second]) => (first < second ? -1 : 1)));
}
