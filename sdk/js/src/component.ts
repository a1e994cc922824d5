/**
 * The entry of a component, which `windlass build` writes:
 *
 * ```js
 * import * as host from 'windlass:plugin/host@0.1.0';
 * import { component } from '@windlass/plugin/component';
 * import plugin from './src/plugin.js';
 * export const { reconciler, admission } = component(plugin, host);
 * ```
 */

import type { Admission, Host, Reconciler } from './contract.js';
import { connect } from './host.js';
import type { Plugin } from './plugin.js';

/** The exports of a component. `host` is the interface that the component imports. */
export function component(plugin: Plugin, host: Host): { reconciler: Reconciler; admission: Admission | undefined } {
  connect(host);
  return { reconciler: plugin.reconciler, admission: plugin.admission };
}
