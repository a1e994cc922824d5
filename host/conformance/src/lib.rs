//! What every plugin and every SDK must do, as data: the files beside this crate, which `windlass test --conformance`
//! runs (`host/cli/src/test/conformance`). `README.md` describes their format.

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The cases for every plugin: their names and their texts, in the order of the names.
pub fn any() -> impl Iterator<Item = (&'static str, &'static str)> {
    ANY.iter().copied()
}

/// The golden cases for a probe, the plugin that shows the behaviour of an SDK: their names, requests and responses, in
/// the order of the names. A case without a response has an empty text there.
pub fn probe() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let text = |name: &str| PROBE.iter().find(|(other, _)| *other == name).map_or("", |(_, text)| *text);
    PROBE
        .iter()
        .filter(|(name, _)| !name.ends_with(RESPONSE))
        .map(move |(name, request)| (*name, *request, text(&format!("{name}{RESPONSE}"))))
}

/// How the name of a file with a response ends.
const RESPONSE: &str = ".answer";
