import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';

import { existing, kinds, plugin, rollout, rolloutMessage } from '@windlass/plugin';
import { call } from '@windlass/plugin/testing';

const CASES = new URL('../../../host/conformance/rollouts.json', import.meta.url);

test('rollouts are those that every SDK sees', () => {
  /** @type {{ description: string, object: any, rollout: object }[]} */
  const cases = JSON.parse(readFileSync(CASES, 'utf8'));
  assert(cases.length > 0);
  for (const { description, object, rollout: expected } of cases) {
    /** @type {object | undefined} */
    let seen;
    const sees = plugin({
      name: 'sees',
      version: '1.0.0',
      parent: existing({ kind: kinds.ConfigMap }),
      reconcile(request) {
        seen = rollout([kinds.Deployment, kinds.StatefulSet, kinds.DaemonSet].flatMap((kind) => request.childrenOf(kind))[0]);
        return {};
      },
    });
    call(sees, { parent: { metadata: { name: 'a' } }, children: [object] });
    assert.deepEqual(seen, expected, description);
  }
});

test('an object that does not exist is progressing, and the message ends with the failure', () => {
  const none = rollout(undefined);
  assert.deepEqual([none.state, none.desired, rolloutMessage(none, 3)], ['Progressing', 0, '0/3 replicas ready']);
  assert.equal(rolloutMessage({ ready: 2, state: 'Failed', failure: 'quota' }, 3), '2/3 replicas ready: quota');
});
