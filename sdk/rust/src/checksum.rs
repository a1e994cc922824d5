//! A short text that changes when values do.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

use crate::json::bytes;

/// A text of 16 hex digits that changes when one of these values does: the start of the SHA-256 of their JSON list, with sorted keys. As an
/// annotation of a Pod template, it restarts the Pods when a ConfigMap or Secret changes that the plugin returns. All SDKs give the
/// same text. A value that cannot be serialized counts as null.
///
/// ```
/// use windlass_plugin::{checksum, json};
///
/// assert_eq!(checksum([json!({ "b": ["x"], "a": 1 })]), "9575cb8196f08d95");
/// ```
pub fn checksum(values: impl IntoIterator<Item = impl Serialize>) -> String {
    let values = values.into_iter().map(|value| serde_json::to_value(value).unwrap_or_default());
    let mut values: Value = values.collect();
    values.sort_all_objects();
    sha256(&bytes(&values)).iter().take(2).fold(String::new(), |mut text, word| {
        let _ = write!(text, "{word:08x}");
        text
    })
}

/// SHA-256 (FIPS 180-4), as words. A crate for it brings six others, and nothing secret depends on this hash.
#[allow(
    clippy::indexing_slicing,
    clippy::many_single_char_names,
    reason = "the names and constant indices of the standard"
)]
fn sha256(message: &[u8]) -> [u32; 8] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend((message.len() as u64 * 8).to_be_bytes());
    let mut state = INITIAL;
    for block in padded.as_chunks::<64>().0 {
        let mut words = [0; 64];
        for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        for at in 16..64 {
            let (early, late) = (words[at - 15], words[at - 2]);
            let early: u32 = early.rotate_right(7) ^ early.rotate_right(18) ^ (early >> 3);
            let late = late.rotate_right(17) ^ late.rotate_right(19) ^ (late >> 10);
            words[at] = words[at - 16].wrapping_add(early).wrapping_add(words[at - 7]).wrapping_add(late);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = state;
        for (constant, word) in CONSTANTS.iter().zip(words) {
            let choice = (e & f) ^ (!e & g);
            let sum = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let first = h.wrapping_add(sum).wrapping_add(choice).wrapping_add(*constant).wrapping_add(word);
            let majority = (a & b) ^ (a & c) ^ (b & c);
            let second = (a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22)).wrapping_add(majority);
            (h, g, f, e) = (g, f, e, d.wrapping_add(first));
            (d, c, b, a) = (c, b, a, first.wrapping_add(second));
        }
        for (word, more) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *word = word.wrapping_add(more);
        }
    }
    state
}

const INITIAL: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

#[rustfmt::skip]
const CONSTANTS: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

#[cfg(test)]
mod tests {
    use super::sha256;

    #[test]
    fn hash_is_that_of_the_standard_for_each_length_of_padding() {
        let abc = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(sha256(b"")[..2], [0xe3b0_c442, 0x98fc_1c14]);
        assert_eq!(sha256(b"abc")[..2], [0xba78_16bf, 0x8f01_cfea]);
        assert_eq!(sha256(abc.as_bytes())[..2], [0x248d_6a61, 0xd206_38b8]);
    }
}
