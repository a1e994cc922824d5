//! Objects' JSON, kept small: most of what an object says, the others of its kind say too.
//!
//! A cache compresses each object against a dictionary of objects that came before (LZ4 blocks with a dictionary). What
//! comes out is, to the byte, what went in.

use std::sync::Arc;

use lz4_flex::block::{compress_with_dict, decompress_into_with_dict};

/// What a dictionary holds at most, in bytes: each object is compared with all of it. Matches reach back 64 KiB.
const DICTIONARY_MAX: usize = 16 * 1024;

/// What one object adds to it at most: a large one that is like no other must not be all of it.
const SAMPLE_MAX: usize = DICTIONARY_MAX / 2;

/// Number of objects after which a dictionary may learn for the first time, for each time that it has learnt: every
/// version stays as long as something is packed with it, so there must be few of them for each object.
const LEARN_EVERY: usize = 64;

/// Less is not worth the trouble.
const LEN_MIN: usize = 128;

/// The JSON of an object, as it is or packed.
#[derive(Debug, Clone)]
pub struct Json(Kept);

#[derive(Debug, Clone)]
enum Kept {
    Plain(Arc<[u8]>),
    Packed { dictionary: Arc<[u8]>, block: Box<[u8]>, len: u32 },
}

impl Json {
    /// The bytes.
    pub fn bytes(&self) -> Arc<[u8]> {
        match &self.0 {
            Kept::Plain(bytes) => bytes.clone(),
            Kept::Packed { dictionary, block, len } => {
                let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, *len as usize).collect();
                let unpacked = Arc::get_mut(&mut bytes).map(|out| decompress_into_with_dict(block, out, dictionary));
                // It was unpacked once when it was packed: there is no other case.
                if matches!(unpacked, Some(Ok(_))) { bytes } else { Arc::default() }
            }
        }
    }

    /// How many bytes they are, without unpacking them.
    pub fn unpacked_size(&self) -> usize {
        match &self.0 {
            Kept::Plain(bytes) => bytes.len(),
            Kept::Packed { len, .. } => *len as usize,
        }
    }

    /// How many bytes of memory they take, the dictionary aside.
    pub fn size(&self) -> usize {
        match &self.0 {
            Kept::Plain(bytes) => bytes.len(),
            Kept::Packed { block, .. } => block.len(),
        }
    }
}

impl<B: Into<Arc<[u8]>>> From<B> for Json {
    fn from(bytes: B) -> Self {
        Self(Kept::Plain(bytes.into()))
    }
}

/// Packs objects of one kind, and learns what they look like.
#[derive(Debug, Default)]
pub struct Packer {
    dictionary: Arc<[u8]>,
    /// How often it has learnt.
    versions: usize,
    /// Objects since it did.
    since: usize,
}

impl Packer {
    /// The same JSON in less memory, if there is a way.
    pub fn pack(&mut self, json: Json) -> Json {
        let Kept::Plain(bytes) = &json.0 else { return json };
        let Ok(len) = u32::try_from(bytes.len()) else { return json };
        if bytes.len() < LEN_MIN {
            return json;
        }
        self.since += 1;
        let mut block = compress_with_dict(bytes, &self.dictionary);
        // It looks like nothing that came before: the next one may look like it.
        if block.len() > bytes.len() / 2 && self.since > self.versions * LEARN_EVERY {
            self.learn(bytes);
            block = compress_with_dict(bytes, &self.dictionary);
        }
        if block.len() > bytes.len() / 8 * 7 {
            return json;
        }
        let packed = Json(Kept::Packed { dictionary: self.dictionary.clone(), block: block.into(), len });
        // Nobody must ever see another object than the API server sent.
        if packed.bytes() == *bytes { packed } else { json }
    }

    /// Adds a sample, for the oldest ones if need be.
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

    /// An object of a shape, with what differs from one to the next.
    fn object(shape: &str, n: usize) -> String {
        let digest = |text: &str| crate::digest::Digest::of(text.as_bytes()).to_string();
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
    fn another_shape_is_learnt_and_the_first_is_not_forgotten() {
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
    fn what_cannot_be_packed_costs_no_more_than_it_is_and_no_dictionary_each() {
        let mut packer = Packer::default();
        let digest = |text: String| crate::digest::Digest::of(text.as_bytes()).to_string();
        let noise = |n: usize| -> String { (0..40).map(|at| digest(format!("{n}/{at}"))).collect() };
        for n in 0..1000 {
            let text = noise(n);
            assert!(pack(&mut packer, &text).size() <= text.len());
        }
        assert!(packer.versions < 10, "{}", packer.versions);
        assert!(packer.dictionary.len() <= DICTIONARY_MAX);
    }

    /// Texts of a few fragments, some of them long, as objects of a few shapes are.
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
        fn what_comes_out_is_what_went_in(texts in texts()) {
            let mut packer = Packer::default();
            // Each time over, the dictionary knows more, and what was packed before stays as it is.
            let kept: Vec<_> = (0..LEARN_EVERY).flat_map(|_| &texts).map(|text| (packer.pack(Json::from(text.as_slice())), text)).collect();
            for (json, text) in &kept {
                prop_assert_eq!(&json.bytes()[..], &text[..]);
            }
        }
    }
}
