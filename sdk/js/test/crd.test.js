import assert from 'node:assert/strict';
import test from 'node:test';

import { customResource, existing, kinds, plugin, rfc1035Name, t } from '@windlass/plugin';
import { checkCrd, crd } from '@windlass/plugin/testing';

/** @param {import('@windlass/plugin').Parent<any, any>} parent */
const pluginOf = (parent) => plugin({ name: 'test', version: '1.0.0', parent, reconcile: () => ({}) });

/** @param {string} field */
const positive = (field) => ({
  rule: `quantity(string(self.${field})).isGreaterThan(quantity('0'))`,
  message: `${field} must be more than 0`,
  fieldPath: `.${field}`,
});

const DNS_SUBDOMAIN = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$';

test('the CRD of MyApp is the one that the Rust SDK makes', () => {
  const count = (/** @type {string} */ description) => t.integer({ description, minimum: 0, maximum: 4294967295 });
  const spec = t.object(
    {
      image: t.string({ description: 'Container image of the Pods.', minLength: 1, maxLength: 1024, pattern: /^\S+$/ }),
      replicas: t.integer({
        description: 'Desired number of Pods, 1 to 100. Default: 1.',
        minimum: 1,
        maximum: 100,
        default: 1,
      }),
      port: t.integer({
        description: 'Port of the container and of the Service, 1 to 65535. Default: 8080.',
        minimum: 1,
        maximum: 65535,
        default: 8080,
      }),
      resources: t.object(
        {
          cpu: t.quantity({ description: 'CPU request of each Pod, as in `500m`. Default: 100m.', default: '100m' }),
          memory: t.quantity({
            description: 'Memory request of each Pod, as in `256Mi`. Default: 128Mi.',
            default: '128Mi',
          }),
        },
        {
          description: 'Compute resources that each Pod requests.',
          default: {},
          rules: [positive('cpu'), positive('memory')],
        },
      ),
      env: t.array(
        t.object(
          {
            name: t.string({
              description: 'Name of the environment variable.',
              minLength: 1,
              maxLength: 253,
              pattern: '^[-._a-zA-Z][-._a-zA-Z0-9]*$',
            }),
            value: t.string({
              description: 'Value of the environment variable. Default: empty.',
              maxLength: 32768,
              default: '',
            }),
          },
          { description: 'Environment variable of a container.' },
        ),
        {
          description: 'Environment variables of the container, at most 500. Their names must be unique.',
          maxItems: 500,
          listType: 'map',
          listMapKeys: ['name'],
          default: [],
        },
      ),
      ingressHost: t.optional(
        t.string({
          description: 'Host name of the Ingress. If unset, there is no Ingress.',
          maxLength: 253,
          pattern: DNS_SUBDOMAIN,
        }),
      ),
    },
    { description: 'Desired state of a MyApp.' },
  );
  const status = t.object(
    {
      phase: t.enum(['Pending', 'Running', 'Failed'], {
        description: 'Phase of the application: Pending, Running or Failed.',
      }),
      replicas: count('Number of Pods that exist.'),
      readyReplicas: count('Number of Ready Pods.'),
      availableReplicas: count('Number of available Pods.'),
      lastUpdateTime: t.optional(
        t.string({ description: 'Time of the last change of this status.', format: 'date-time' }),
      ),
      message: t.string({ description: 'Summary of the status for users.' }),
    },
    { description: 'Observed state of a MyApp.' },
  );
  const myapp = customResource({
    group: 'example.com',
    version: 'v1',
    kind: 'MyApp',
    shortNames: ['ma'],
    columns: [
      { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
      { name: 'Replicas', type: 'integer', jsonPath: '.status.replicas' },
    ],
    rules: [rfc1035Name()],
    spec,
    status,
  });
  checkCrd(pluginOf(myapp), new URL('../../../plugins/myapp/crd.json', import.meta.url));
});

/** @param {object} fields */
function site(fields = {}) {
  const spec = t.object({ replicas: t.integer({ default: 1 }) });
  const parent = customResource({ group: 'example.com', version: 'v1', kind: 'Site', spec, ...fields });
  return /** @type {any} */ (crd(pluginOf(parent))).spec;
}

test('a spec whose fields all have defaults is optional', () => {
  assert.equal(site().versions[0].schema.openAPIV3Schema.required, undefined);
});

test('names, scope and categories are as declared', () => {
  const spec = site({ scope: 'Cluster', plural: 'places', categories: ['all'], shortNames: ['si'] });
  assert.equal(spec.scope, 'Cluster');
  assert.deepEqual(spec.names, {
    kind: 'Site',
    listKind: 'SiteList',
    plural: 'places',
    singular: 'site',
    categories: ['all'],
    shortNames: ['si'],
  });
});

test('plurals are English', () => {
  const kinds = ['Echo', 'MyApp', 'NetworkPolicy', 'Gateway', 'Ingress', 'Index', 'Switch', 'MySQLCluster'];
  assert.deepEqual(
    kinds.map((kind) => site({ kind }).names.plural),
    ['echoes', 'myapps', 'networkpolicies', 'gateways', 'ingresses', 'indexes', 'switches', 'mysqlclusters'],
  );
});

test('a column named Ready or Age replaces the one that is always there', () => {
  const age = { name: 'Age', type: 'string', jsonPath: '.spec.age', priority: 1 };
  const columns = site({ columns: [age] }).versions[0].additionalPrinterColumns;
  assert.deepEqual(
    columns.map((/** @type {{ name: string }} */ { name }) => name),
    ['Ready', 'Age'],
  );
  assert.deepEqual(columns[1], age);
});

test('no field of a status is required, and a plugin without a status has the fields of the host', () => {
  const { status } = site({ status: t.object({ pods: t.integer() }) }).versions[0].schema.openAPIV3Schema.properties;
  assert.equal(status.required, undefined);
  assert.deepEqual(Object.keys(status.properties), ['pods', 'observedGeneration', 'conditions']);
  const none = site().versions[0].schema.openAPIV3Schema.properties.status;
  assert.deepEqual(Object.keys(none.properties), ['observedGeneration', 'conditions']);
});

test('a plugin on an existing kind has no CRD', () => {
  const guard = pluginOf(existing({ kind: kinds.Namespace, selector: { labels: 'team', annotations: 'owner=me' } }));
  assert.equal(crd(guard), undefined);
  assert.deepEqual(guard.reconciler.describe().parent, {
    tag: 'existing',
    val: {
      kind: { apiVersion: 'v1', name: 'Namespace' },
      selector: { labels: 'team', annotations: 'owner=me' },
    },
  });
});
