//! Finds list items by the names that `fieldsV1` gives them.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher as _};

use compact_str::CompactString;
use smallvec::SmallVec;

use super::{CONTROLLER, Item, ItemMatcher, Node};
use crate::value::json::{Map, Value};

/// Finds named list items without a scan of the list for each name: a plugin may desire thousands of items.
pub(super) struct Finder<'v> {
    items: &'v [Value],
    /// `None` for a short list, which is scanned.
    index: Option<Index>,
}

/// Index of items by the values of their key fields.
struct Index {
    /// The key fields that occur in any name.
    keys: Vec<CompactString>,
    /// The shapes that occur: bit sets of the key fields that an item has. An item may lack keys that the API server
    /// defaults.
    shapes: SmallVec<[u64; 4]>,
    /// Indices of items by shape and hash of the key values.
    places: HashMap<(u64, u64), SmallVec<[usize; 1]>>,
}

/// The shape of scalar items, which are identified by their value.
const SCALAR: u64 = u64::MAX;
/// Lists up to this length are scanned, which is cheaper than an index.
pub(super) const SHORT: usize = 16;

impl<'v> Finder<'v> {
    /// Creates a finder for items that these nodes may name.
    pub(super) fn of<'n>(items: &'v [Value], nodes: impl IntoIterator<Item = &'n Node>) -> Self {
        if items.len() <= SHORT {
            return Self { items, index: None };
        }
        let names = nodes.into_iter().flat_map(|node| &node.items);
        let keys: BTreeSet<&str> = names
            .filter_map(|(name, _)| if let Item::Keys(keys) = name { keys.as_object() } else { None })
            .flat_map(|keys| keys.iter().map(|(key, _)| key))
            .collect();
        // The limit of 32 is far above the number of keys of any Kubernetes list.
        let keys: Vec<CompactString> = keys.into_iter().take(32).map(CompactString::from).collect();
        let mut index = Index { keys, shapes: SmallVec::new(), places: HashMap::new() };
        for (at, item) in items.iter().enumerate() {
            let place = match item {
                Value::Object(item) => index.place(item),
                scalar => (SCALAR, hash_of(scalar, None)),
            };
            if !index.shapes.contains(&place.0) {
                index.shapes.push(place.0);
            }
            index.places.entry(place).or_default().push(at);
        }
        Self { items, index: Some(index) }
    }

    /// The first item with this name.
    pub(super) fn first(&self, name: &Item, names: &ItemMatcher<'_>) -> Option<&'v Value> {
        self.all(name, names).into_iter().min().and_then(|at| self.items.get(at))
    }

    /// The indices of all items with this name. An item that lacks one of the name's keys has the default there, which is not known. So it
    /// is not meant if another item has exactly this name: of two ports 53, one has the default protocol.
    pub(super) fn all(&self, name: &Item, names: &ItemMatcher<'_>) -> SmallVec<[usize; 2]> {
        let is_named = |at: &usize| self.items.get(*at).is_some_and(|item| names.matches(name, item));
        let mut all: SmallVec<[usize; 2]> = match self.index.as_ref().and_then(|index| index.candidates(name, names)) {
            Some(candidates) => candidates.into_iter().filter(is_named).collect(),
            None => (0..self.items.len()).filter(is_named).collect(),
        };
        let is_exact = |at: &usize| self.items.get(*at).is_some_and(|item| has_all_keys(item, name));
        if all.len() > 1 && all.iter().any(is_exact) {
            all.retain(|at| is_exact(at));
        }
        all
    }
}

/// Whether an item has each key of a name, whatever its value.
fn has_all_keys(item: &Value, name: &Item) -> bool {
    match (item, name) {
        (Value::Object(item), Item::Keys(Value::Object(keys))) => keys.iter().all(|(key, _)| item.get(key).is_some()),
        _ => true,
    }
}

impl Index {
    /// The shape of an item, and the hash of its key values.
    fn place(&self, item: &Map) -> (u64, u64) {
        let present = self.keys.iter().enumerate().filter_map(|(bit, key)| Some((bit, item.get(key)?)));
        let mut hasher = DefaultHasher::new();
        let shape = present.fold(0, |shape, (bit, value)| {
            hasher.write_u64(hash_of(value, None));
            shape | (1 << bit)
        });
        (shape, hasher.finish())
    }

    /// Indices of items that may have this name; `None` if the index does not cover such names.
    fn candidates(&self, name: &Item, names: &ItemMatcher<'_>) -> Option<SmallVec<[usize; 2]>> {
        let at = |place| self.places.get(&place).into_iter().flatten().copied();
        match name {
            Item::Other | Item::Value(Value::Object(_)) => None,
            Item::Value(value) => Some(at((SCALAR, hash_of(value, Some(names.controller)))).collect()),
            Item::Keys(keys) => {
                let keys = keys.as_object()?;
                let mut found = SmallVec::new();
                for shape in self.shapes.iter().copied().filter(|shape| *shape != SCALAR) {
                    let mut hasher = DefaultHasher::new();
                    for (_, key) in self.keys.iter().enumerate().filter(|(bit, _)| shape & (1 << bit) != 0) {
                        // The items have a key that the name lacks, so the hash cannot be computed from the name.
                        hasher.write_u64(hash_of(keys.get(key)?, Some(names.controller)));
                    }
                    found.extend(at((shape, hasher.finish())));
                }
                Some(found)
            }
        }
    }
}

/// Hashes the name of an item; equal names have equal hashes.
pub(super) fn hash_of_name(name: &Item) -> u64 {
    match name {
        Item::Keys(Value::Object(keys)) => {
            let mut hasher = DefaultHasher::new();
            keys.iter().for_each(|(key, value)| (key, hash_of(value, None)).hash(&mut hasher));
            hasher.finish()
        }
        Item::Keys(value) | Item::Value(value) => hash_of(value, None),
        Item::Other => 0,
    }
}

/// Hashes a value; equal values have equal hashes. All non-scalar values have the same hash.
fn hash_of(value: &Value, controller: Option<&str>) -> u64 {
    let mut hasher = DefaultHasher::new();
    match (value, controller) {
        (Value::String(text), Some(controller)) if text.contains(CONTROLLER) => {
            text.replace(CONTROLLER, controller).hash(&mut hasher);
        }
        (Value::String(text), _) => text.as_str().hash(&mut hasher),
        (Value::Bool(value), _) => value.hash(&mut hasher),
        // Equal decimals have equal hashes, in any notation.
        (Value::Number(number), _) => {
            let near: f64 = number.as_str().parse().unwrap_or_default();
            (near + 0.0).to_bits().hash(&mut hasher);
        }
        (Value::Null | Value::Array(_) | Value::Object(_), _) => {}
    }
    hasher.finish()
}
