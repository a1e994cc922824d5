/** Questions about a call, and about schedules, that the host's own code answers: `windlass harness`. */

import { spawnSync } from 'node:child_process';

import type * as contract from '../contract.js';
import { encode, parse, stringify, type JsonObject } from '../json.js';
import { parsed, updateDocument, updateOf, written } from './response.js';

/** The host refuses the response, the config or the plugin's description. The message is that of the host. */
export class Refused extends Error {
  /** Always `Refused`. */
  override readonly name = 'Refused';
}

/** The readiness of an object. */
export interface ToldReadiness {
  /** The state. */
  state: contract.Readiness['tag'];
  /** What is missing, or why it failed. */
  message?: string;
}

/** What the host says of a call. */
export interface Answer {
  /** What is invalid in the parent, so that the host does not call the plugin. */
  invalid?: string;
  /** The parent with its defaults, if it lacks any. */
  parent?: Uint8Array;
  /** Of each child, in the order of the request. */
  children?: ToldReadiness[];
  /** Of the related objects, by the id of their requirement. */
  related?: Record<string, ToldReadiness[]>;
}

/**
 * Asks the host about a call: before it is made, or after it, with its response.
 *
 * @throws {Refused} if the host refuses what it is asked about.
 * @throws {Error} if there is no `windlass`, or if it cannot read the question.
 */
export function ask(descriptor: contract.Descriptor, request: contract.Request, response?: contract.Response): Answer {
  const { refused, parent, ...answer } = parse(run(write(question(descriptor, request, response)))) as JsonObject;
  if (refused !== undefined) {
    throw new Refused(refused as string);
  }
  return { ...(answer as Answer), ...(parent !== undefined && { parent: encode(parent) }) };
}

/** The host's answers about schedules. */
export const schedules: contract.Schedules = {
  next: (schedule, timeZone, after) => scheduled('next', schedule, timeZone, after) as bigint,
  previous: (schedule, timeZone, at) => scheduled('previous', schedule, timeZone, at),
};

function scheduled(question: string, schedule: string, timeZone: string, time: bigint): bigint | undefined {
  const answer = JSON.parse(run(JSON.stringify({ [question]: { schedule, timeZone, time: Number(time) } })));
  if (answer.time === undefined) {
    const [[name, val]] = Object.entries<string>(answer) as [[string, string]];
    const payload: contract.ScheduleProblem = { tag: name === 'schedule' ? 'schedule' : 'time-zone', val };
    throw Object.assign(new Error(val), { payload });
  }
  return answer.time === null ? undefined : BigInt(answer.time);
}

/** Answers a document by the program. */
function run(input: string): string {
  const program = process.env['WINDLASS'] || 'windlass';
  const { error, status, stdout, stderr } = spawnSync(program, ['harness'], { input, encoding: 'utf8', maxBuffer: Infinity });
  if ((error as NodeJS.ErrnoException | undefined)?.code === 'ENOENT') {
    const how = 'install it with `cargo install --locked --path host/cli` in the repository of Windlass, or set the environment variable WINDLASS to its path';
    throw new Error(`a test needs the program windlass, and there is no ${program}: ${how}`);
  }
  if (status !== 0) {
    throw new Error(`${program} harness: ${stderr?.trim() || error?.message}`);
  }
  return stdout;
}

function question(descriptor: contract.Descriptor, request: contract.Request, response: contract.Response | undefined): object {
  return {
    descriptor: description(descriptor),
    phase: request.phase.tag,
    parent: request.parent,
    children: request.children.map(({ object }) => object),
    related: Object.fromEntries(request.related.map(({ id, objects }) => [id, objects.map(({ object }) => object)])),
    config: request.config,
    response: response && {
      ...written(parsed(response)),
      children: response.children.map(({ object }) => object),
      status: response.status,
    },
  };
}

function description({ endpoints: _, extensions: __, resync, parent, ...descriptor }: contract.Descriptor): object {
  return {
    ...descriptor,
    parent: parent.tag === 'custom' ? { custom: parent.val.definition } : { existing: kindDocument(parent.val.kind) },
    selector: parent.val.selector,
    children: descriptor.children.map(({ kind, update, optional }) => ({
      ...kindDocument(kind),
      update: updateDocument(updateOf(update)),
      optional,
    })),
    related: descriptor.related.map(({ kind, optional }) => ({ ...kindDocument(kind), optional })),
    resyncMs: resync,
    metrics: descriptor.metrics.map(({ metricType, ...metric }) => ({ ...metric, type: metricType })),
  };
}

function kindDocument({ apiVersion, name }: contract.Kind): object {
  return { apiVersion, kind: name };
}

/** JSON, in which documents stay byte for byte as they are. Fields without a value are left out. */
function write(value: unknown): string {
  if (value instanceof Uint8Array) {
    return Buffer.from(value).toString();
  }
  if (Array.isArray(value)) {
    return `[${value.map(write).join()}]`;
  }
  if (typeof value !== 'object' || value === null) {
    return stringify(value);
  }
  const fields = Object.entries(value).filter(([, field]) => field !== undefined);
  return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${write(field)}`).join()}}`;
}
