// The probe on the JavaScript SDK: a plugin whose spec tells what to do, so that `windlass test --conformance` sees how the SDK
// behaves. The probes of the other SDKs do the same.

import {
  childWith,
  customResource,
  failed,
  invalid,
  kind,
  kinds,
  log,
  measure,
  plugin,
  Schedule,
  span,
  t,
  wait,
} from '@windlass/plugin';

const word = { pattern: '^[A-Z][A-Za-z]*$', maxLength: 63 };
const label = { pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$', maxLength: 63 };

const parent = customResource({
  group: 'conformance.example',
  version: 'v1',
  kind: 'Probe',
  spec: t.object(
    {
      children: t.integer({ description: 'The number of ConfigMaps.', minimum: 0, maximum: 1000, default: 0 }),
      text: t.optional(t.string({ description: 'Copied into the status and the ConfigMaps.' })),
      number: t.optional(t.bigint({ description: 'Copied into the status.' })),
      decimal: t.optional(t.number({ description: 'Copied into the status.' })),
      map: t.optional(t.map(t.string(), { description: 'Copied into the status and the ConfigMaps.' })),
      copy: t.optional(t.json({ description: 'Copied into the status, and the spec of a child of kind Copy.' })),
      fail: t.optional(t.string({ description: 'The failure: its kind, a colon and the message.' })),
      require: t.optional(
        t.string({
          description: 'The name of a related ConfigMap, which may name another one in data.next.',
          ...label,
        }),
      ),
      select: t.optional(t.string({ description: 'The labels of related ConfigMaps.', pattern: '^[a-z]+=[a-z]+$' })),
      everywhere: t.boolean({ description: 'Whether they are in all namespaces, and their metadata is enough.', default: false }),
      options: t.array(
        t.object(
          {
            stage: t.optional(t.integer({ description: 'The stage.', minimum: 0, maximum: 9 })),
            takeOver: t.optional(t.boolean({ description: 'Whether the host takes fields of others.' })),
            ready: t.optional(t.boolean({ description: 'Whether it is ready.' })),
            retain: t.optional(t.boolean({ description: 'Whether it outlives the parent; not together with once.' })),
            once: t.optional(t.string({ description: 'It is created once for each text.', minLength: 1, maxLength: 63 })),
            update: t.optional(t.enum(['apply', 'recreate', 'onDelete'], { description: 'How it is changed.' })),
            replaces: t.optional(t.string({ description: 'The name of a ConfigMap that may be in its way.', ...label })),
          },
          { description: 'Options of a ConfigMap.' },
        ),
        { description: 'Options of the ConfigMaps, in their order.', maxItems: 16, default: [] },
      ),
      keep: t.array(t.string({ description: 'A name.', ...label }), {
        description: 'The names of ConfigMaps that stay as they are.',
        maxItems: 16,
        default: [],
      }),
      keepAll: t.boolean({ description: 'Whether all children stay as they are.', default: false }),
      waiting: t.optional(t.string({ description: 'What the probe waits for.' })),
      events: t.array(
        t.object(
          {
            reason: t.string({ description: 'Why, in CamelCase.', ...word }),
            message: t.string({ description: 'Details.' }),
            warning: t.boolean({ description: 'Whether it is a warning.', default: false }),
          },
          { description: 'An event.' },
        ),
        { description: 'Events on the parent.', maxItems: 16, default: [] },
      ),
      conditions: t.array(
        t.object(
          {
            type: t.string({ description: 'What holds, in CamelCase.', ...word }),
            holds: t.boolean({ description: 'Whether it holds.' }),
            reason: t.string({ description: 'Why, in CamelCase.', ...word }),
            message: t.string({ description: 'Details.' }),
          },
          { description: 'A condition.' },
        ),
        { description: 'Conditions of the parent.', maxItems: 8, default: [] },
      ),
      requeueSeconds: t.optional(t.integer({ description: 'Seconds until the next call.', minimum: 1, maximum: 86400 })),
      requeueAt: t.optional(t.string({ description: 'The time of the next call.', format: 'date-time' })),
      see: t.boolean({ description: 'Whether the status has what the probe sees.', default: false }),
      schedule: t.optional(
        t.object(
          {
            cron: t.string({ description: 'As in a CronJob.' }),
            timeZone: t.string({ description: 'As in a CronJob.', default: '' }),
            at: t.string({ description: 'The time of the question.', format: 'date-time' }),
            last: t.optional(t.string({ description: 'The time that was handled last.', format: 'date-time' })),
          },
          { description: 'A schedule whose times the status has.' },
        ),
      ),
      report: t.boolean({ description: 'Whether to log, to trace and to measure.', default: false }),
      time: t.boolean({ description: 'Whether the status has the time.', default: false }),
      random: t.boolean({ description: 'Whether there is a ConfigMap with random bytes.', default: false }),
      retain: t.boolean({ description: 'Whether the ConfigMaps outlive the parent.', default: false }),
    },
    { description: 'What the probe does.' },
  ),
  status: t.object(
    {
      text: t.optional(t.string({ description: 'As in the spec.' })),
      number: t.optional(t.bigint({ description: 'As in the spec.' })),
      decimal: t.optional(t.number({ description: 'As in the spec.' })),
      map: t.optional(t.map(t.string(), { description: 'As in the spec.' })),
      copy: t.optional(t.json({ description: 'As in the spec.' })),
      before: t.optional(t.string({ description: 'The text of the last status.' })),
      label: t.optional(t.string({ description: 'The parent\'s label "probe".' })),
      annotation: t.optional(t.string({ description: 'The parent\'s annotation "probe".' })),
      live: t.integer({ description: 'The number of ConfigMaps that exist.' }),
      ready: t.integer({ description: 'The number of children of kind Copy whose condition Ready is True.' }),
      leaving: t.optional(t.array(t.string(), { description: 'The names of the ConfigMaps that are being deleted.' })),
      related: t.optional(t.array(t.json(), { description: 'The related objects.' })),
      config: t.optional(t.json({ description: "The Plugin's config." })),
      time: t.optional(t.string({ description: 'The time of the call.' })),
      scheduled: t.optional(
        t.object(
          {
            next: t.string({ description: 'The first one after the time of the question.' }),
            previous: t.optional(t.string({ description: 'The last one until then.' })),
            due: t.optional(t.string({ description: 'The one that was not handled yet.' })),
          },
          { description: 'Times of the schedule.' },
        ),
      ),
      seen: t.optional(
        t.object(
          {
            readiness: t.array(t.string(), { description: 'The readiness of all children.' }),
            kinds: t.array(t.string(), { description: 'The optional kinds that exist.' }),
            closed: t.array(t.string(), { description: 'The closed namespaces.' }),
            now: t.string({ description: 'The time, in seconds.' }),
          },
          { description: 'What a request has beside objects.' },
        ),
      ),
      finalizing: t.optional(t.boolean({ description: 'Whether the parent is being cleaned up.' })),
      cause: t.optional(t.string({ description: 'Why it is.' })),
      terminating: t.optional(t.boolean({ description: 'Whether its namespace is being deleted.' })),
    },
    { description: 'What the probe sees.' },
  ),
});

/** Kinds that only the probe has. */
const Copy = kind('conformance.example/v1', 'Copy');
const Extra = kind('conformance.example/v1', 'Extra');

const CAUSES = { deleted: 'deleted', 'left-selector': 'leftSelector', 'left-namespaces': 'leftNamespaces' };

export default plugin({
  name: 'probe',
  version: '0.1.0',
  description: 'Does what its spec tells, so that a test sees how the SDK behaves',
  parent,
  children: [kinds.ConfigMap, Copy, { kind: Extra, optional: true }],
  related: [kinds.ConfigMap],
  finalizes: true,
  readyMeans: 'applied',
  clock: true,
  resync: '5m',
  config: t.object(
    {
      greeting: t.string({ description: 'Any text.', default: 'none' }),
      number: t.optional(t.bigint({ description: 'Any number.' })),
    },
    { description: "The Plugin's config." },
  ),
  metrics: [
    { name: 'reports_total', type: 'counter', description: 'Reports', labels: ['kind'] },
    { name: 'size', type: 'gauge', unit: 'By', description: 'The size of the report' },
  ],

  reconcile(request) {
    const live = request.childrenOf(kinds.ConfigMap);
    if (request.isFinalizing) {
      return cleanUp(request, live);
    }
    const { name, spec, metadata } = request;
    const [, failure, message] = /^(\w+): (.*)$/s.exec(spec.fail ?? '') ?? [];
    if (failure === 'retry') {
      return wait(message, '1.5s');
    }
    fail(failure, message);
    if (spec.report) {
      report(spec.text ?? '');
    }
    const { requirements, related } = relatedOf(request);
    const configMaps = Array.from({ length: spec.children }, (_, index) =>
      configMap(`${name}-${index}`, { index: `${index}`, text: spec.text, ...spec.map }),
    );
    const options = spec.options.map((one) => ({ ...optionsOf(one), retain: one.retain ?? spec.retain }));
    const both = options.findIndex(({ retain, once }) => retain && once !== undefined);
    if (both >= 0) {
      throw invalid(`spec.options[${both}].once`, 'must be absent with retain');
    }
    const leaving = live.filter((child) => child.isBeingDeleted).map((child) => child.name);
    return {
      children: [
        ...configMaps.map((child, index) => childWith(child, options[index] ?? { retain: spec.retain })),
        spec.copy !== undefined && {
          apiVersion: Copy.apiVersion,
          kind: Copy.name,
          metadata: { name: `${name}-copy` },
          spec: spec.copy,
        },
        spec.random && configMap(`${name}-random`, { bytes: hex(crypto.getRandomValues(new Uint8Array(8))) }),
      ],
      keep: spec.keepAll ? 'all' : spec.keep.map((name) => ({ kind: kinds.ConfigMap, name })),
      waiting: spec.waiting,
      status: {
        text: spec.text,
        number: spec.number,
        decimal: spec.decimal,
        map: spec.map,
        copy: spec.copy,
        before: request.status?.text,
        label: metadata.labels['probe'],
        annotation: metadata.annotations['probe'],
        live: live.length,
        ready: request.childrenOf(Copy).filter((child) => child.isConditionTrue('Ready')).length,
        leaving: leaving.length > 0 ? leaving : undefined,
        related,
        config: request.config,
        time: spec.time ? seconds(new Date()) : undefined,
        seen: spec.see ? see(request) : undefined,
        scheduled: spec.schedule && scheduled(spec.schedule),
      },
      conditions: spec.conditions.map(({ type, holds, reason, message }) => ({ type, status: holds, reason, message })),
      events: spec.events.map(({ reason, message, warning }) => ({ type: warning ? 'Warning' : 'Normal', reason, message })),
      requirements,
      requeue: spec.requeueSeconds === undefined ? undefined : `${spec.requeueSeconds}s`,
      requeueAt: spec.requeueAt === undefined ? undefined : new Date(spec.requeueAt),
    };
  },
});

/** The first ConfigMap stays until it is the last one. */
function cleanUp({ cause, isNamespaceTerminating }, live) {
  const terminating = isNamespaceTerminating || undefined;
  const status = { live: live.length, ready: 0, finalizing: true, cause: CAUSES[cause], terminating };
  return live.length > 1
    ? { children: [configMap(live[0].name, { kept: 'true' })], status }
    : { status, finalized: true };
}

function optionsOf({ update, replaces, ...options }) {
  return {
    ...options,
    update: update === 'onDelete' ? 'on-delete' : update,
    replaces: replaces === undefined ? undefined : { kind: kinds.ConfigMap, name: replaces },
  };
}

/** What a request has beside objects. */
function see(request) {
  return {
    readiness: request.children.map(({ kind, name, readiness: { state, message } }) => {
      const why = message && `, ${message}`;
      return `${kind.name} ${name}: ${state}${why}`;
    }),
    kinds: [Extra].filter((kind) => request.hasKind(kind)).map(({ name }) => name),
    closed: [...request.closedNamespaces],
    now: seconds(request.now),
  };
}

function scheduled({ cron, timeZone, at, last }) {
  const fields = { field: 'spec.schedule.cron', timeZoneField: 'spec.schedule.timeZone' };
  const schedule = new Schedule(cron, { timeZone, ...fields });
  const now = new Date(at);
  const due = last === undefined ? undefined : schedule.due({ last: new Date(last), now }).time;
  const previous = schedule.previous(now);
  return { next: seconds(schedule.next(now)), previous: previous && seconds(previous), due: due && seconds(due) };
}

function seconds(time) {
  return time.toISOString().replace(/\.\d+Z$/, 'Z');
}

function fail(type, message) {
  if (type === 'invalid') {
    throw invalid('spec.fail', message);
  }
  if (type === 'failed') {
    throw failed(message);
  }
}

function report(text) {
  log.info('reported', { text, number: 1 });
  log.warn('warned');
  span.attribute('probe.text', text);
  span.event('reported', { text });
  measure('reports_total', 1, { kind: 'probe' });
  measure('size', 1.5);
}

/** The requirements, and the objects that the host has served for them. */
function relatedOf(request) {
  const requirements = [];
  let related;
  const serve = (requirement) => {
    requirements.push({ kind: kinds.ConfigMap, ...requirement });
    const objects = request.related(requirement.id)?.map(({ object }) => object);
    related = objects ? [...(related ?? []), ...objects] : related;
    return objects?.[0];
  };
  const { require: name, select: labels, everywhere } = request.spec;
  if (name !== undefined) {
    const next = serve({ id: 'named', name })?.data?.next;
    if (next !== undefined) {
      serve({ id: 'next', name: next });
    }
  }
  if (labels !== undefined) {
    serve({ id: 'labelled', labels, ...(everywhere && { namespaces: 'all', metadataOnly: true }) });
  }
  return { requirements, related };
}

function configMap(name, data) {
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data };
}

function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
