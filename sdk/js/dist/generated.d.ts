/** Values that are generated once and stay, such as passwords. */
import type { KubernetesObject } from './kinds.js';
/** The value of a key in a Secret; undefined if there is none. */
export declare function secretValue(secret: KubernetesObject | undefined, key: string): string | undefined;
/** 24 random letters and digits. */
export declare function randomText(): string;
