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
import { connect } from './host.js';
/** The exports of a component. `host` is the interface that the component imports. */
export function component(plugin, host) {
    connect(host);
    return { reconciler: plugin.reconciler, admission: plugin.admission };
}
