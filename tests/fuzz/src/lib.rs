//! Inputs for fuzzing: every file of `tests/corpus`, unchanged and with random changes.
//!
//! A target is a test next to the code that it attacks. It checks properties of every input, and returns whether the code
//! accepts the input:
//!
//! ```no_run
//! windlass_fuzz::Target::new("references", 20_000).attack(0.1, |input| {
//!     let Ok(text) = std::str::from_utf8(input) else { return false };
//!     !text.is_empty()
//! });
//! ```

// A test fails by a panic, and only tests use this crate.
#![allow(clippy::panic, clippy::expect_used, clippy::indexing_slicing, clippy::missing_panics_doc)]

mod change;
mod corpus;

use std::cell::Cell;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use change::{Change, changes};
use corpus::{ParsedSeed, Seed};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestError, TestRunner};
use serde_json::Value;

/// The folders of the corpus.
pub const TARGETS: [&str; 13] = [
    "answers",
    "bundles",
    "chunks",
    "definitions",
    "descriptors",
    "docker-configs",
    "manifests",
    "packed",
    "payloads",
    "references",
    "selectors",
    "statements",
    "statuses",
];

/// A JSON object as `serde_json` reads it. The host accepts more: it skips unknown fields without checking their UTF-8, and
/// reads a list of a structure's fields as an object.
pub fn as_others_read(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(bytes).ok().filter(Value::is_object)
}

/// With fewer cases, the share of accepted inputs is not significant.
const ENOUGH: u32 = 1000;

/// Code that reads untrusted input.
pub struct Target {
    name: &'static str,
    cases: u32,
    seeds: Vec<Seed>,
}

/// Untrusted bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Input(Vec<u8>);

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

impl std::ops::Deref for Input {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Target {
    /// The target of a folder of the corpus, with this number of cases, unless `PROPTEST_CASES` sets another number.
    pub fn new(name: &'static str, cases: u32) -> Self {
        assert!(TARGETS.contains(&name), "{name} is not a target; add it to TARGETS, and a folder to tests/corpus");
        Self { name, cases, seeds: corpus::read(name) }
    }

    /// Adds a sample from another place, named like a file of the corpus.
    #[must_use]
    pub fn with(mut self, name: &str, bytes: &[u8]) -> Self {
        self.seeds.push(Seed::new(name, bytes.to_vec()));
        self
    }

    /// Runs a test on every file of the corpus and on mutations of them. The test returns whether the input was
    /// accepted. It must accept a file named `good-…` and reject one named `bad-…`, and accept at least this share of
    /// the mutations, so that the mutations also test the code behind the first checks.
    pub fn attack(&self, share: f64, test: impl Fn(&[u8]) -> bool) {
        for seed in &self.seeds {
            let _on_panic = Named(&seed.name);
            let is_taken = test(&seed.bytes);
            assert_eq!(is_taken, seed.is_good, "{}: whether the input is accepted", seed.name);
        }
        self.run(share, &self.inputs(), |input| test(input));
    }

    /// Runs a test on the values of a strategy, usually based on [`inputs`](Self::inputs).
    pub fn run<S: Strategy>(&self, share: f64, strategy: &S, test: impl Fn(&S::Value) -> bool) {
        let mut config = Config { failure_persistence: None, ..Config::default() };
        if std::env::var_os("PROPTEST_CASES").is_none() {
            config.cases = self.cases;
        }
        let cases = config.cases;
        let begun = Instant::now();
        let taken = Cell::new(0_u32);
        let outcome = TestRunner::new(config).run(strategy, |input| {
            taken.set(taken.get() + u32::from(test(&input)));
            Ok(())
        });
        match outcome {
            Ok(()) => {}
            Err(TestError::Fail(why, input)) => self.found(&why.to_string(), &input),
            Err(TestError::Abort(why)) => panic!("{}: {why}", self.name),
        }
        let found = f64::from(taken.get()) / f64::from(cases);
        println!("{}: {cases} cases in {:.1} s, {found:.3} accepted", self.name, begun.elapsed().as_secs_f64());
        let is_chance = cases < ENOUGH;
        assert!(
            is_chance || found >= share,
            "{}: only {found:.3} of the inputs were accepted, less than {share}",
            self.name
        );
    }

    /// Inputs: a seed, in half of the cases a good one, and one to three mutations of it.
    pub fn inputs(&self) -> BoxedStrategy<Input> {
        let seeds: Arc<[ParsedSeed]> = self.seeds.iter().map(|seed| ParsedSeed::of(&seed.bytes)).collect();
        let good: Vec<_> = (0..seeds.len()).filter(|at| self.seeds[*at].is_good).collect();
        assert!(!good.is_empty(), "{} has no good input", self.name);
        let seed = prop_oneof![0..seeds.len(), proptest::sample::select(good)];
        let input = (seed, changes()).prop_map(move |(seed, changes): (usize, Vec<Change>)| {
            let first = seeds[seed].bytes.clone();
            Input(changes.iter().fold(first, |bytes, change| change.apply(bytes, &seeds)))
        });
        input.boxed()
    }

    fn found(&self, why: &str, input: &impl fmt::Debug) -> ! {
        let text = format!("{input:?}");
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/fuzz");
        let path = folder.join(format!("{}-{:016x}", self.name, hasher.finish()));
        let kept = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, &text));
        let kept = kept.map_or_else(|error| error.to_string(), |()| format!("kept in {}", path.display()));
        panic!("{}: {why}\non {text}\n{kept}; see tests/corpus/README.md", self.name)
    }
}

/// Prints the name of the file if the test panics.
struct Named<'a>(&'a str);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("tests/corpus: {}", self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_of_the_corpus_belongs_to_a_target() {
        assert_eq!(corpus::folders(), TARGETS);
    }

    #[test]
    fn changed_inputs_differ_from_the_seeds_and_some_stay_valid_json() {
        let target = Target::new("manifests", 2000);
        let of = |share, test: fn(&[u8]) -> bool| target.run(share, &target.inputs(), |input| test(input));
        of(0.2, |input| serde_json::from_slice::<Value>(input).is_ok());
        of(0.2, |input| serde_json::from_slice::<Value>(input).is_err());
        let seeds: Vec<_> = target.seeds.iter().map(|seed| seed.bytes.clone()).collect();
        target.run(0.9, &target.inputs(), |input| !seeds.contains(&input.0));
    }
}
