/** Values that are generated once and stay, such as passwords. */
const decoder = new TextDecoder();
/** The value of a key in a Secret; undefined if there is none. */
export function secretValue(secret, key) {
    const value = secret?.['data']?.[key];
    return typeof value === 'string' ? decoder.decode(Uint8Array.from(atob(value), (byte) => byte.charCodeAt(0))) : undefined;
}
const CHARACTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
/** 24 random letters and digits. */
export function randomText() {
    // Without the last bytes, all characters are equally likely.
    const end = 256 - (256 % CHARACTERS.length);
    let text = '';
    while (text.length < 24) {
        const usable = crypto.getRandomValues(new Uint8Array(32)).filter((byte) => byte < end);
        text += Array.from(usable, (byte) => CHARACTERS[byte % CHARACTERS.length]).join('');
    }
    return text.slice(0, 24);
}
