// {{kind}}: writes a message into a ConfigMap.

import { customResource, invalid, kinds, plugin, t } from '@windlass/plugin';

const parent = customResource({
  group: '{{group}}',
  version: 'v1',
  kind: '{{kind}}',
  columns: [{ name: 'Message', type: 'string', jsonPath: '.spec.message' }],
  spec: t.object(
    { message: t.string({ description: 'The text of the ConfigMap; one line.', minLength: 1, maxLength: 1000 }) },
    { description: 'The desired message.' },
  ),
  status: t.object(
    { isWritten: t.boolean({ description: 'Whether the ConfigMap exists.' }) },
    { description: 'The observed state.' },
  ),
});

export default plugin({
  name: '{{name}}',
  version: '0.1.0',
  description: 'Writes a message into a ConfigMap',
  parent,
  children: [kinds.ConfigMap],

  reconcile(request) {
    const { message } = request.spec;
    if (message.includes('\n')) {
      throw invalid('spec.message', 'must be one line');
    }
    const configMap = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: request.name },
      data: { message },
    };
    const isWritten = request.child(kinds.ConfigMap, request.name) !== undefined;
    return { children: [configMap], status: { isWritten } };
  },
});
