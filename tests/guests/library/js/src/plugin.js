// What the engine's library can and cannot do in a component: the spec names one thing to do, and the status has the result.

import { customResource, plugin, t } from '@windlass/plugin';

const does = {
  fetch: () => fetch('http://example.com/'),
  date: () => new Date('2026-01-02').toISOString(),
  zone: () => new Date(0).toLocaleString('en', { timeZone: 'Europe/Berlin' }),
  intl: () => new Intl.DateTimeFormat('en').format(0),
  process: () => process.env.HOME,
  timer: () => setTimeout(() => {
    throw new Error('the timer fired');
  }, 0),
  rejected: () => void Promise.reject(new Error('nobody waits for it')),
};

export default plugin({
  name: 'library',
  version: '0.1.0',
  description: 'Calls the library of the engine',
  parent: customResource({
    group: 'library.example',
    version: 'v1',
    kind: 'Library',
    spec: t.object({ do: t.string() }),
    status: t.object({ result: t.string() }),
  }),
  reconcile: ({ spec }) => ({ status: { result: String(does[spec.do]()) } }),
});
