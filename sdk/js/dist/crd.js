/** The CustomResourceDefinition of a plugin. */
/** Parents of a custom kind, whose CRD the component contains. */
export function customResource(resource) {
    const { selector = {}, spec, status } = resource;
    return Object.freeze({ crd: crd(resource), selector, spec, status });
}
/** Parents of a kind that the plugin does not define: a built-in kind, or a custom kind of another operator. */
export function existing(parent) {
    const { kind, selector = {}, spec, status } = parent;
    return Object.freeze({ existing: kind, selector, spec, status });
}
/**
 * The rule that an object's name is a label by RFC 1035 of at most this many characters (63 or less): for a kind whose objects share
 * their name with a Service. A plugin that appends to the name subtracts the length of what it appends.
 */
export function rfc1035Name(maxLength = 63) {
    return {
        rule: `self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= ${maxLength}`,
        message: `name must be a label of DNS that begins with a letter (a-z, 0-9, -), at most ${maxLength} characters`,
    };
}
function crd(resource) {
    const { group, version, kind, scope = 'Namespaced', spec, status } = resource;
    const singular = kind.toLowerCase();
    const names = { kind, listKind: `${kind}List`, plural: resource.plural ?? plural(singular), singular };
    const schema = {
        type: 'object',
        // A spec without required fields is optional.
        ...(spec.keywords['required'] === undefined ? {} : { required: ['spec'] }),
        properties: { spec: spec.keywords, status: statusSchema(status?.keywords ?? {}) },
        ...nonEmpty('x-kubernetes-validations', resource.rules),
    };
    return {
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'CustomResourceDefinition',
        metadata: { name: `${names.plural}.${group}` },
        spec: {
            group,
            names: {
                ...names,
                ...nonEmpty('shortNames', resource.shortNames),
                ...nonEmpty('categories', resource.categories),
            },
            scope,
            versions: [
                {
                    name: version,
                    served: true,
                    storage: true,
                    subresources: { status: {} },
                    additionalPrinterColumns: columns(resource.columns ?? []),
                    schema: { openAPIV3Schema: schema },
                },
            ],
        },
    };
}
function nonEmpty(name, values = []) {
    return values.length > 0 ? { [name]: [...values] } : {};
}
function columns(own) {
    const unless = (column) => (own.some(({ name }) => name === column.name) ? [] : [column]);
    const ready = { name: 'Ready', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].status' };
    const age = { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' };
    return [...unless(ready), ...own, ...unless(age)].map((column) => ({ ...column }));
}
const GENERATION = { type: 'integer', format: 'int64', minimum: 0 };
/** The plugin's fields and the host's. None is required: after a failed first call, the status has only the host's fields. */
function statusSchema({ required: _, nullable: __, properties, ...keywords }) {
    return {
        ...keywords,
        type: 'object',
        properties: { ...properties, observedGeneration: GENERATION, conditions: conditions() },
    };
}
/** A list of `metav1.Condition` with the bounds of that type. */
function conditions() {
    return {
        type: 'array',
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['type'],
        items: {
            type: 'object',
            required: ['lastTransitionTime', 'message', 'reason', 'status', 'type'],
            properties: {
                type: { type: 'string', maxLength: 316 },
                status: { type: 'string', enum: ['True', 'False', 'Unknown'] },
                observedGeneration: GENERATION,
                lastTransitionTime: { type: 'string', format: 'date-time' },
                reason: {
                    type: 'string',
                    minLength: 1,
                    maxLength: 1024,
                    pattern: '^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$',
                },
                message: { type: 'string', maxLength: 32768 },
            },
        },
    };
}
/** The English plural of a kind. */
function plural(singular) {
    if (/[^aeou]y$/.test(singular)) {
        return `${singular.slice(0, -1)}ies`;
    }
    return /([sxzo]|ch|sh)$/.test(singular) ? `${singular}es` : `${singular}s`;
}
