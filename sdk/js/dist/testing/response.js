/** Responses in tests: parsed, and as the answers of golden cases have them. */
import { decode } from '../json.js';
/** Parses a response. */
export function parsed(response) {
    const { keep, requeue, requeueAt } = response;
    return {
        children: response.children.map(({ object }) => decode(object)),
        options: response.children.map(optionsOf),
        keep: keep.tag === 'all' ? 'all' : keep.tag === 'these' ? keep.val : [],
        status: response.status && decode(response.status),
        waiting: response.waiting,
        requeue: requeue === undefined ? undefined : Number(requeue),
        requeueAt: requeueAt === undefined ? undefined : new Date(Number(requeueAt)),
        events: response.events.map(({ eventType, reason, message }) => ({
            type: eventType === 'normal' ? 'Normal' : 'Warning',
            reason,
            message,
        })),
        requirements: response.requirements,
        finalized: response.finalized,
    };
}
function optionsOf({ stage, retain, takeOver, create, ready, update, replaces }) {
    const once = create.tag === 'once' ? create.val : undefined;
    const options = {
        stage: stage || undefined,
        retain: retain || undefined,
        takeOver: takeOver || undefined,
        ready,
        update: update && updateOf(update),
        once,
        replaces,
    };
    return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}
/** The update strategy as a plugin writes it. */
export function updateOf(update) {
    return update.tag === 'rolling' ? { rolling: update.val.conditions, recreate: update.val.recreate } : update.tag;
}
/** A response without its children, as a golden answer has it. Empty fields may be there. */
export function written(response) {
    const { keep, requeueAt } = response;
    return {
        options: response.options.map(optionsDocument),
        keep: keep === 'all' ? keep : keep.length > 0 ? { these: keep.map(reference) } : undefined,
        waiting: response.waiting,
        status: response.status,
        requeueMs: response.requeue,
        // The host has no time 0 here: both are long past.
        requeueAtMs: requeueAt && Math.max(1, requeueAt.getTime()),
        events: response.events,
        requirements: response.requirements.map(requirement),
        finalized: response.finalized,
    };
}
function optionsDocument({ update, replaces, ...options }) {
    return { ...options, ...(update && { update: updateDocument(update) }), ...(replaces && { replaces: reference(replaces) }) };
}
/** The update strategy as a golden answer has it. */
export function updateDocument(update) {
    if (typeof update === 'string') {
        return update === 'on-delete' ? 'onDelete' : update;
    }
    const { rolling, recreate } = update;
    return { rolling: { recreate, until: rolling.length === 0 ? 'ready' : { conditions: rolling } } };
}
function reference({ kind, namespace, name }) {
    return { apiVersion: kind.apiVersion, kind: kind.name, ...(namespace && { namespace }), name };
}
function requirement({ id, kind, namespaces, select, metadataOnly }) {
    const selected = select.tag === 'label-selector' ? { labels: selectorText(decode(select.val)) } : { [select.tag]: select.val };
    return { id, apiVersion: kind.apiVersion, kind: kind.name, ...where(namespaces), ...selected, ...(metadataOnly && { metadataOnly }) };
}
function where(namespaces) {
    if (namespaces.tag === 'named') {
        const [namespace, ...others] = namespaces.val;
        return namespace !== undefined && others.length === 0 ? { namespace } : { namespaces: namespaces.val };
    }
    return namespaces.tag === 'all' ? { namespaces: 'all' } : {};
}
/** A LabelSelector in kubectl's syntax, as the host writes it. */
function selectorText({ matchLabels, matchExpressions }) {
    const labels = Object.entries(matchLabels ?? {}).sort().map(([key, value]) => ({ key, operator: 'In', values: [value] }));
    const term = ({ key, operator, values }) => ({ In: `${key} in (${values})`, NotIn: `${key} notin (${values})`, Exists: key, DoesNotExist: `!${key}` })[operator] ??
        // The host refuses it.
        `${key} ${operator} (${values})`;
    return [...labels, ...(matchExpressions ?? [])].map(term).join(',');
}
