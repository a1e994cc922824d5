/**
 * The entry of a component, which `windlass build` writes; a plugin does not import this module:
 *
 * ```js
 * import * as host from 'windlass:plugin/host@0.2.0-rc.1';
 * import * as schedule from 'windlass:plugin/schedule@0.2.0-rc.1';
 * import { component } from '@windlass/plugin/component';
 * import plugin from './src/plugin.js';
 * export const { reconciler, admission } = component(plugin, host, schedule);
 * ```
 *
 * @module @windlass/plugin/component
 */
import { connect } from './host.js';
/**
 * Returns the exports of a component: the interfaces of the contract.
 *
 * @param plugin the plugin.
 * @param host the interface that the component imports, which gets the plugin's log lines, spans and measurements.
 * @param schedule the interface that the component imports, which computes the times of schedules.
 */
export function component(plugin, host, schedule) {
    connect(host, schedule);
    // That of the engine would trap: a trap has no message, and traps lead to quarantine.
    globalThis.fetch = () => {
        throw new Error('fetch: a plugin has no network and no files');
    };
    return { reconciler: plugin.reconciler, admission: plugin.admission };
}
