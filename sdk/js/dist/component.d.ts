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
import type { Admission, Host, Reconciler, Schedules } from './contract.js';
import type { Plugin } from './plugin.js';
/** The exports of a component. */
export interface Exports {
    /** The interface that the host calls. */
    reconciler: Reconciler;
    /** The admission; undefined for a plugin without a function `review`. */
    admission: Admission | undefined;
}
/**
 * Returns the exports of a component: the interfaces of the contract.
 *
 * @param plugin the plugin.
 * @param host the interface that the component imports, which gets the plugin's log lines, spans and measurements.
 * @param schedule the interface that the component imports, which computes the times of schedules.
 */
export declare function component(plugin: Plugin, host: Host, schedule: Schedules): Exports;
