//! Encodings of a component in a ConfigMap, with bounded decompression.

use std::io::Read;

/// Largest window of a zstd frame, as a power of two: 8 MiB, which RFC 8878 asks every decoder to support. A frame of a
/// few bytes can request 128 MiB, which would add to the limit of the unpacked component.
const ZSTD_WINDOW_LOG: u32 = 23;

/// An encoding of a component. Its text is the name in a head's `encoding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase", parse_err_ty = String, parse_err_fn = unknown)]
pub enum Encoding {
    /// Not packed.
    Identity,
    /// Zstandard (RFC 8878).
    Zstd,
    /// gzip (RFC 1952).
    Gzip,
}

impl Encoding {
    /// All encodings.
    pub const ALL: [Self; 3] = [Self::Identity, Self::Zstd, Self::Gzip];

    /// The suffix of a component's key in a ConfigMap.
    pub fn key_suffix(self) -> &'static str {
        match self {
            Self::Identity => "",
            Self::Zstd => ".zst",
            Self::Gzip => ".gz",
        }
    }

    /// Unpacks a component of at most `limit` bytes.
    ///
    /// # Errors
    /// If the data is broken, or has more than `limit` bytes unpacked; the message is for users.
    pub fn unpack(self, packed: Vec<u8>, limit: u64) -> Result<Vec<u8>, String> {
        let read = |reader: &mut dyn Read| {
            let mut bytes = Vec::new();
            reader
                .take(limit.saturating_add(1))
                .read_to_end(&mut bytes)
                .map_err(|error| format!("the {self} data is broken: {error}"))?;
            Ok::<_, String>(bytes)
        };
        let bytes = match self {
            Self::Identity => packed,
            Self::Gzip => read(&mut flate2::read::MultiGzDecoder::new(packed.as_slice()))?,
            Self::Zstd => {
                let broken = |error| format!("the zstd data is broken: {error}");
                let mut decoder = zstd::stream::read::Decoder::new(packed.as_slice()).map_err(broken)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG).map_err(broken)?;
                read(&mut decoder).map_err(|error| {
                    if error.contains("requires too much memory") {
                        format!("{error}: its window is larger than 8 MiB; pack it with `zstd -19` or less, without --ultra or --long")
                    } else {
                        error
                    }
                })?
            }
        };
        if bytes.len() as u64 > limit {
            return Err(format!("the component is larger than the limit of {limit} bytes"));
        }
        Ok(bytes)
    }

    /// Packs bytes.
    ///
    /// # Errors
    /// If the packer fails, which only a lack of memory can cause.
    pub fn pack(self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        match self {
            Self::Identity => Ok(bytes.to_vec()),
            // A high level, because the size of a ConfigMap is limited, and the component is packed only once.
            Self::Zstd => zstd::stream::encode_all(bytes, 19),
            Self::Gzip => {
                let mut packed = Vec::new();
                flate2::read::GzEncoder::new(bytes, flate2::Compression::best()).read_to_end(&mut packed)?;
                Ok(packed)
            }
        }
    }
}

fn unknown(text: &str) -> String {
    format!("encoding {text:?} is not known; it must be identity, zstd or gzip")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn unpacked_bytes_never_exceed_the_limit(
            bytes in proptest::collection::vec(any::<u8>(), 0..2048),
            repeated in 1..50_usize,
            turned in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            encoding in proptest::sample::select(Encoding::ALL.to_vec()),
            is_packed in any::<bool>(),
            limit in 0..60_000_u64,
        ) {
            let mut packed = if is_packed { encoding.pack(&bytes.repeat(repeated)).expect("packs") } else { bytes };
            for (at, bits) in turned.into_iter().filter(|_| !packed.is_empty()).collect::<Vec<_>>() {
                let at = at.index(packed.len());
                packed[at] ^= bits;
            }
            if let Ok(unpacked) = encoding.unpack(packed, limit) {
                prop_assert!(unpacked.len() as u64 <= limit);
            }
        }
    }

    #[test]
    fn packed_bytes_unpack_to_the_original() {
        let bytes = b"component ".repeat(1000);
        for encoding in Encoding::ALL {
            let packed = encoding.pack(&bytes).expect("packs");
            assert_eq!(encoding.unpack(packed, 10_000), Ok(bytes.clone()));
        }
    }

    #[test]
    fn compression_bomb_is_not_unpacked_beyond_the_limit() {
        for encoding in [Encoding::Zstd, Encoding::Gzip] {
            let bomb = encoding.pack(&vec![0; 50_000_000]).expect("packs");
            assert!(bomb.len() < 100_000, "the compressed bomb is small");
            assert!(encoding.unpack(bomb, 10_000).expect_err("too large").contains("larger than the limit"));
        }
    }

    #[test]
    fn zstd_frame_with_a_window_above_8_mib_is_rejected() {
        let packed = |window: u32| {
            let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).expect("an encoder");
            encoder.window_log(window).expect("a window");
            std::io::Write::write_all(&mut encoder, b"component").expect("packs");
            encoder.finish().expect("packs")
        };
        assert_eq!(Encoding::Zstd.unpack(packed(23), 100), Ok(b"component".to_vec()));
        for window in [24, 27] {
            let refused = Encoding::Zstd.unpack(packed(window), 100).expect_err("a larger window");
            assert!(refused.contains("larger than 8 MiB"), "{refused}");
        }
    }

    #[test]
    fn broken_compression_is_reported() {
        for encoding in [Encoding::Zstd, Encoding::Gzip] {
            assert!(encoding.unpack(b"no".to_vec(), 10).expect_err("broken").contains("is broken"));
        }
    }
}
