//! Compresses the JSON of cached objects. Objects of one kind have most of their content in common.
//!
//! A cache compresses each object against a dictionary of earlier objects (LZ4 blocks with a dictionary). Unpacking
//! returns exactly the original bytes.

use std::sync::Arc;

use lz4_flex::block::{compress_with_dict, decompress_into_with_dict};

use crate::value::memory;

/// Maximum size of a dictionary, in bytes. Each object is compared with the whole dictionary; LZ4 matches reach back 64
/// KiB.
const DICTIONARY_MAX: usize = 16 * 1024;

/// Maximum size of one object's sample in the dictionary, in bytes: a large and unusual object must not fill the
/// dictionary.
const SAMPLE_MAX: usize = DICTIONARY_MAX / 2;

/// After `n` versions of the dictionary, the next version needs more than `n * LEARN_EVERY` further objects. Each
/// version stays in memory while an object is packed with it, so there must be few versions in relation to objects.
const LEARN_EVERY: usize = 64;

/// Minimum size of an object that is compressed, in bytes.
const LEN_MIN: usize = 128;

/// The JSON of an object, plain or packed.
#[derive(Debug, Clone)]
pub struct Json(Kept);

#[derive(Debug, Clone)]
enum Kept {
    Plain(Arc<[u8]>),
    Packed { dictionary: Arc<[u8]>, block: Box<[u8]>, len: u32 },
}

impl Json {
    /// Returns the unpacked bytes.
    pub fn bytes(&self) -> Arc<[u8]> {
        match &self.0 {
            Kept::Plain(bytes) => bytes.clone(),
            Kept::Packed { dictionary, block, len } => {
                let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, *len as usize).collect();
                let unpacked = Arc::get_mut(&mut bytes).map(|out| decompress_into_with_dict(block, out, dictionary));
                // Unpacking was verified when the object was packed, so it cannot fail here.
                if matches!(unpacked, Some(Ok(_))) { bytes } else { Arc::default() }
            }
        }
    }

    /// Size of the unpacked JSON, in bytes. Unpacks nothing.
    pub fn unpacked_size(&self) -> usize {
        match &self.0 {
            Kept::Plain(bytes) => bytes.len(),
            Kept::Packed { len, .. } => *len as usize,
        }
    }

    /// Memory that the JSON takes on the heap, in bytes, without the dictionary, which objects share.
    pub fn size(&self) -> usize {
        match &self.0 {
            Kept::Plain(bytes) => memory::shared(bytes.len()),
            Kept::Packed { block, .. } => memory::allocated(block.len()),
        }
    }
}

impl<B: Into<Arc<[u8]>>> From<B> for Json {
    fn from(bytes: B) -> Self {
        Self(Kept::Plain(bytes.into()))
    }
}

/// Compresses objects of one kind, and learns a dictionary from them.
#[derive(Debug, Default)]
pub struct Packer {
    dictionary: Arc<[u8]>,
    /// Number of dictionary versions so far.
    versions: usize,
    /// Number of objects since the last version.
    since: usize,
}

impl Packer {
    /// Returns the same JSON, compressed if that saves memory.
    pub fn pack(&mut self, json: Json) -> Json {
        let Kept::Plain(bytes) = &json.0 else { return json };
        let Ok(len) = u32::try_from(bytes.len()) else { return json };
        if bytes.len() < LEN_MIN {
            return json;
        }
        self.since += 1;
        let mut block = compress_with_dict(bytes, &self.dictionary);
        // The object resembles no earlier object, but later objects may resemble it.
        if block.len() > bytes.len() / 2 && self.since > self.versions * LEARN_EVERY {
            self.learn(bytes);
            block = compress_with_dict(bytes, &self.dictionary);
        }
        if block.len() > bytes.len() / 8 * 7 {
            return json;
        }
        let packed = Json(Kept::Packed { dictionary: self.dictionary.clone(), block: block.into(), len });
        // The result is verified, because every reader must get the bytes that the API server sent.
        if packed.bytes() == *bytes { packed } else { json }
    }

    /// Adds a sample to the dictionary, dropping its oldest content if necessary.
    fn learn(&mut self, sample: &[u8]) {
        let sample = sample.get(..SAMPLE_MAX).unwrap_or(sample);
        let known = [&self.dictionary, sample].concat();
        let from = known.len().saturating_sub(DICTIONARY_MAX);
        self.dictionary = known.get(from..).unwrap_or_default().into();
        self.versions += 1;
        self.since = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An object of the given shape, with fields that differ from one object to the next.
    fn object(shape: &str, n: usize) -> String {
        let digest = |text: &str| crate::value::digest::Digest::of(text.as_bytes()).to_string();
        let fields = (0..12).map(|at| (format!("{at}"), digest(&format!("{shape} {at}")).into()));
        let fields: serde_json::Map<_, _> = fields.collect();
        let n = n.to_string();
        let meta = serde_json::json!({"name": format!("{shape}-{n}"), "uid": digest(&n), "resourceVersion": n});
        serde_json::json!({"metadata": meta, "spec": fields, "status": {"n": n}}).to_string()
    }

    fn pack(packer: &mut Packer, text: &str) -> Json {
        let json = packer.pack(Json::from(text.as_bytes()));
        assert_eq!(json.bytes()[..], *text.as_bytes());
        json
    }

    #[test]
    fn objects_of_one_kind_take_a_fraction_of_their_bytes() {
        let mut packer = Packer::default();
        for n in 0..100 {
            let text = object("pod", n);
            let size = pack(&mut packer, &text).size();
            assert!(size < text.len() / 3, "{size} of {}", text.len());
        }
        assert_eq!(packer.versions, 1, "they share one dictionary");
    }

    #[test]
    fn dictionary_learns_new_object_shapes_and_keeps_earlier_ones() {
        let mut packer = Packer::default();
        for n in 0..2 * LEARN_EVERY {
            for shape in ["pod", "service", "ingress"] {
                pack(&mut packer, &object(shape, n));
            }
        }
        for shape in ["pod", "service", "ingress"] {
            let text = object(shape, usize::MAX);
            assert!(pack(&mut packer, &text).size() < text.len() / 3, "{shape}");
        }
        assert_eq!(packer.versions, 3);
    }

    #[test]
    fn incompressible_objects_take_at_most_their_own_size_and_few_dictionaries() {
        let mut packer = Packer::default();
        let digest = |text: String| crate::value::digest::Digest::of(text.as_bytes()).to_string();
        let noise = |n: usize| -> String { (0..40).map(|at| digest(format!("{n}/{at}"))).collect() };
        for n in 0..1000 {
            let text = noise(n);
            assert!(pack(&mut packer, &text).size() <= memory::shared(text.len()));
        }
        assert!(packer.versions < 10, "{}", packer.versions);
        assert!(packer.dictionary.len() <= DICTIONARY_MAX);
    }

    /// Texts made of a few fragments, some of them long, like objects of a few shapes.
    fn texts() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let fragment =
            prop_oneof![prop::collection::vec(any::<u8>(), 1..60), prop::collection::vec(any::<u8>(), 4000..5000)];
        prop::collection::vec(fragment, 2..8).prop_flat_map(|fragments| {
            let text = prop::collection::vec(prop::sample::select(fragments), 0..40);
            prop::collection::vec(text.prop_map(|fragments| fragments.concat()), 1..12)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn packed_objects_unpack_to_the_same_bytes(texts in texts()) {
            let mut packer = Packer::default();
            // The dictionary grows with each round, and objects packed earlier stay intact.
            let kept: Vec<_> = (0..LEARN_EVERY).flat_map(|_| &texts).map(|text| (packer.pack(Json::from(text.as_slice())), text)).collect();
            for (json, text) in &kept {
                prop_assert_eq!(&json.bytes()[..], &text[..]);
            }
        }
    }
}
