//! Field ownership (server-side apply, KEP-555): determines whether the host still owns all fields of a desired child.
//!
//! When another manager changes or removes a field, the field disappears from the host's `managedFields` entry. So the
//! object alone shows whether that happened: if the host's entries cover every field of the desired child, no other
//! manager changed one of them. This works after a restart as well and compares no values, so it is independent of how
//! the API server or a webhook rewrote them (rule R7).
//!
//! The host creates a child by POST, which leaves an `Update` entry; it updates a child by server-side apply, which
//! adds an `Apply` entry.

mod coverage;
mod empty;
mod finder;
mod stale;
mod trees;
mod values;
mod worked_out;

use std::borrow::Cow;
use std::hash::Hash;
use std::sync::OnceLock;

use compact_str::CompactString;
use serde::Deserialize;
use serde_json::value::RawValue;
use smallvec::SmallVec;

use self::finder::{Finder, SHORT, hash_of_name};
pub use self::stale::{Correction, Ownership};
pub use self::values::may_differ_as_stored;
pub use self::worked_out::work_out_apply;
use crate::object::names::FIELD_MANAGER;
use crate::value::ids::Uid;
use crate::value::json::{self, Map, Value};

/// The host's own entries in an object's `metadata.managedFields`.
///
/// Children of one kind have equal entries except for the UID of their controller. A placeholder replaces that UID, so
/// one copy serves all children ([`Interner`](crate::value::intern::Interner)).
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub struct ManagedFields {
    /// The host's Apply entry.
    apply: Option<Entry>,
    /// The Update entry that the host's POST left.
    update: Option<Entry>,
    /// The Update entry that an apply of the host left, if the object's managedFields had been cleared, as backup tools do, and no other
    /// Update entry of the host is there. The entry has all fields that the object had, of all managers.
    cleared: Option<Entry>,
    /// The host's Apply entry for the status subresource.
    status: Option<Fields>,
    /// The entries of other managers, except those for the status alone.
    others: Box<[Entry]>,
}

/// An entry of the list.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Entry {
    fields: Fields,
    /// The entry's index in the list.
    index: usize,
    /// The apiVersion in terms of which the fields are named.
    version: CompactString,
    /// Whether the manager changes the object in place: neither by an apply, nor through a subresource.
    edits: bool,
}

/// What to do about the `Update` entry that the host's POST left (the create entry), before or with an apply. Fields
/// that this entry owns would stay in the object when the plugin drops them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateEntry {
    /// All fields that the entry owns are desired, and no other manager owns any field. A forced apply moves the
    /// changed fields to the Apply entry, and the remaining ones are harmless beside it.
    Harmless,
    /// The entry must be gone before the apply.
    MustGo {
        /// The entry's index in the list.
        index: usize,
        /// How the entry is removed.
        removal: Removal,
    },
}

/// How the host's `Update` entry is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// The entry is converted to an Apply entry.
    Convert,
    /// The entry is deleted, since the host's Apply entry owns the same fields.
    Remove,
    /// The entry [`BEFORE_FIRST_APPLY`] is deleted, since the host's Apply entry owns those of its fields that are the host's.
    RemoveBeforeFirstApply,
}

/// The manager to which the API server attributes all fields of an object that has no managedFields when it is applied.
pub const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Placeholder for the UID of the object's controller.
const CONTROLLER: &str = "$controller";

/// One `fieldsV1`, parsed on first use.
#[derive(Debug)]
struct Fields {
    text: Box<str>,
    tree: OnceLock<Option<Node>>,
}

impl Fields {
    fn tree(&self) -> Option<&Node> {
        let parse = || json::parse(self.text.as_bytes(), json::OBJECT_DEPTH).ok()?.as_object().map(Node::of);
        self.tree.get_or_init(parse).as_ref()
    }
}

/// A node of a `fieldsV1`, with the names of its children parsed.
#[derive(Debug, Default)]
struct Node {
    /// Whether the node owns the field itself (`.`).
    itself: bool,
    /// Fields (`f:`), sorted by name.
    fields: Vec<(CompactString, Node)>,
    /// List items; many are sorted by the hashes of their names.
    items: Vec<(Item, Node)>,
}

/// How an item of a list is identified.
#[derive(Debug, PartialEq, Eq)]
enum Item {
    /// By its key fields (`k:`).
    Keys(Value),
    /// By its value (`v:`).
    Value(Value),
    /// By its index (`i:`), or in an unknown way.
    Other,
}

impl Node {
    fn of(map: &Map) -> Self {
        let mut node = Self::default();
        for (name, below) in map.iter() {
            let Some(below) = below.as_object() else {
                // The API server writes no such node; count it as an owned item.
                node.items.push((Item::Other, Self::default()));
                continue;
            };
            let below = || Self::of(below);
            let read = |text: &str| json::parse(text.as_bytes(), 8).ok();
            match name.split_once(':') {
                None if name == "." => node.itself = true,
                // Sorted, because the map is sorted and all names have the same prefix.
                Some(("f", field)) => node.fields.push((field.into(), below())),
                Some(("k", keys)) => node.items.push((read(keys).map_or(Item::Other, Item::Keys), below())),
                Some(("v", value)) => node.items.push((read(value).map_or(Item::Other, Item::Value), below())),
                _ => node.items.push((Item::Other, below())),
            }
        }
        if node.items.len() > SHORT {
            node.items.sort_by_cached_key(|(name, _)| hash_of_name(name));
        }
        node
    }

    fn field(&self, name: &str) -> Option<&Self> {
        let at = self.fields.binary_search_by(|(probe, _)| probe.as_str().cmp(name)).ok()?;
        self.fields.get(at).map(|(_, node)| node)
    }

    /// The node of a list item of this name.
    fn item(&self, wanted: &Item) -> Option<&Self> {
        let is_wanted = |(name, _): &&(Item, Self)| *name != Item::Other && name == wanted;
        let found = if self.items.len() > SHORT {
            let hash = hash_of_name(wanted);
            let from = self.items.partition_point(|(name, _)| hash_of_name(name) < hash);
            self.items.iter().skip(from).take_while(|(name, _)| hash_of_name(name) == hash).find(is_wanted)
        } else {
            self.items.iter().find(is_wanted)
        };
        found.map(|(_, node)| node)
    }

    fn is_empty(&self) -> bool {
        !self.itself && !self.has_below()
    }

    fn has_below(&self) -> bool {
        !(self.fields.is_empty() && self.items.is_empty())
    }
}

impl Entry {
    fn tree(&self) -> Option<&Node> {
        self.fields.tree()
    }
}

impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Fields {}

impl Hash for Fields {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

/// An entry as the API server sends it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sent<'a> {
    #[serde(borrow, default)]
    manager: Cow<'a, str>,
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    operation: Cow<'a, str>,
    #[serde(borrow, default)]
    subresource: Cow<'a, str>,
    #[serde(borrow, default)]
    fields_v1: Option<&'a RawValue>,
}

impl ManagedFields {
    /// Reads the relevant parts of a `managedFields` list of an object with this controller. An unreadable list counts
    /// as one without the host's entries: the next reconcile applies once more, which is always safe.
    pub fn read(list: &str, controller: Option<&str>) -> Self {
        let entries: Vec<Sent<'_>> = serde_json::from_str(list).unwrap_or_default();
        // The UID of the ownerReference, as it occurs within a field's name.
        let named = |uid: &str| format!(r#"\"uid\":\"{uid}\""#);
        let mut ours = Self::default();
        let (mut others, mut before_first_apply) = (Vec::new(), None);
        for (index, entry) in entries.iter().enumerate() {
            let text = entry.fields_v1.map_or("{}", RawValue::get);
            let text = match controller {
                Some(uid) if !uid.is_empty() => text.replace(&named(uid), &named(CONTROLLER)),
                _ => text.to_owned(),
            };
            let fields = Fields { text: text.into(), tree: OnceLock::new() };
            let edits = entry.operation == "Update" && entry.subresource.is_empty();
            let of = |fields| Entry { fields, index, version: entry.api_version.as_ref().into(), edits };
            match (entry.manager == FIELD_MANAGER, &*entry.operation, &*entry.subresource) {
                (true, "Apply", "") => ours.apply = Some(of(fields)),
                (true, "Update", "") => ours.update = Some(of(fields)),
                (false, "Update", "") if entry.manager == BEFORE_FIRST_APPLY => before_first_apply = Some(of(fields)),
                (true, "Apply", "status") => ours.status = Some(fields),
                // An entry for the status that also owns metadata (Pods accept labels and annotations through their
                // status) begins with `f:metadata`, because the API server sorts the names.
                (false, _, "status") if fields.text.starts_with(r#"{"f:status":"#) => {}
                (false, _, _) => others.push(of(fields)),
                _ => {}
            }
        }
        if let Some(entry) = before_first_apply {
            // Without an entry of the host, somebody else's apply left it.
            if ours.apply.is_some() && ours.update.is_none() {
                ours.cleared = Some(entry);
            } else {
                others.push(entry);
            }
        }
        ours.others = others.into();
        ours
    }

    /// The trees of the host's entries.
    fn own(&self) -> impl Iterator<Item = &Node> {
        [&self.apply, &self.update, &self.cleared].into_iter().flatten().filter_map(Entry::tree)
    }

    /// Returns what to do about the Update entry of the host's POST before an apply of the desired object, whose
    /// controller is `controller`; `None` if there is no such entry.
    pub fn create_entry(&self, desired: &Map, controller: Option<&Uid>) -> Option<CreateEntry> {
        let (Entry { fields, index, .. }, removal) = match (&self.update, &self.cleared) {
            (Some(entry), _) if self.apply.is_none() => (entry, Removal::Convert),
            (Some(entry), _) => (entry, Removal::Remove),
            (None, cleared) => (cleared.as_ref()?, Removal::RemoveBeforeFirstApply),
        };
        let controller = controller.map(ToString::to_string).unwrap_or_default();
        let names = ItemMatcher { controller: &controller };
        let is_harmless =
            self.others.is_empty() && fields.tree().is_some_and(|tree| !owns_field_outside(tree, desired, &names));
        if is_harmless {
            return Some(CreateEntry::Harmless);
        }
        Some(CreateEntry::MustGo { index: *index, removal })
    }

    /// Returns true if the host owns a status field that `status` lacks; then the status must be written to remove the
    /// field.
    pub fn owns_status_field_outside(&self, status: &Map) -> bool {
        let node = self.status.as_ref().and_then(Fields::tree).and_then(|tree| tree.field("status"));
        // Statuses do not contain the controller's UID.
        node.is_some_and(|node| owns_field_outside(node, status, &ItemMatcher { controller: CONTROLLER }))
    }
}

/// Returns true if a node owns a field that the map lacks.
fn owns_field_outside(node: &Node, map: &Map, names: &ItemMatcher<'_>) -> bool {
    node.fields.iter().any(|(field, node)| map.get(field).is_none_or(|found| owns_outside(node, found, names)))
}

/// Returns true if a node owns a field or item that the value lacks.
fn owns_outside(node: &Node, value: &Value, names: &ItemMatcher<'_>) -> bool {
    let (fields, items) = (value.as_object(), value.as_array().unwrap_or_default());
    let more_fields = match fields {
        Some(fields) => owns_field_outside(node, fields, names),
        None => !node.fields.is_empty(),
    };
    if more_fields || node.items.is_empty() {
        return more_fields;
    }
    let finder = Finder::of(items, [node]);
    node.items.iter().any(|(name, node)| finder.first(name, names).is_none_or(|found| owns_outside(node, found, names)))
}

/// The nodes of all managers' trees for one place in the object.
#[derive(Default)]
struct Nodes<'a> {
    ours: Few<'a>,
    others: Few<'a>,
    /// Of managers whose fields do not count: they only give names to the items of lists.
    names: Few<'a>,
}

/// Nodes of different managers; rarely more than four.
type Few<'a> = SmallVec<[&'a Node; 4]>;

impl<'a> Nodes<'a> {
    /// The nodes of a field in each tree.
    fn below(&self, key: &str) -> Self {
        self.each(|node| node.field(key))
    }

    /// For each desired item of a list: the nodes by which the host and others own it, and the live item with the same keys, if an entry
    /// names it by keys.
    fn of_items<'v>(
        &self,
        (desired, live): (&[Value], &'v [Value]),
        names: &ItemMatcher<'_>,
    ) -> SmallVec<[(Self, Option<&'v Value>); 4]> {
        let all = || self.ours.iter().chain(&self.others).copied();
        let (wanted, found) = (Finder::of(desired, all()), Finder::of(live, all()));
        let mut items: SmallVec<[(Self, _); 4]> = desired.iter().map(|_| (Self::default(), None)).collect();
        for (at, node) in all().enumerate() {
            let is_ours = at < self.ours.len();
            for (name, node) in &node.items {
                for at in wanted.all(name, names) {
                    let Some((nodes, live_item)) = items.get_mut(at) else { continue };
                    let same = if is_ours { &mut nodes.ours } else { &mut nodes.others };
                    same.push(node);
                    if matches!(name, Item::Keys(_)) {
                        *live_item = found.first(name, names);
                    }
                }
            }
        }
        items
    }

    /// The nodes of a list item of this name in each tree.
    fn item(&self, name: &Item) -> Self {
        self.each(|node| node.item(name))
    }

    /// Whether one of them names items of a list.
    fn have_items(&self) -> bool {
        self.ours.iter().chain(&self.others).chain(&self.names).any(|node| !node.items.is_empty())
    }

    fn each(&self, below: impl Fn(&'a Node) -> Option<&'a Node>) -> Self {
        let below = |nodes: &Few<'a>| nodes.iter().filter_map(|node| below(node)).collect();
        Self { ours: below(&self.ours), others: below(&self.others), names: below(&self.names) }
    }
}

/// The context for comparing items with their names in `fieldsV1`.
#[derive(Clone, Copy)]
struct ItemMatcher<'a> {
    /// The UID that replaces [`CONTROLLER`].
    controller: &'a str,
}

impl ItemMatcher<'_> {
    /// Returns true if the name identifies this item.
    fn matches(&self, name: &Item, item: &Value) -> bool {
        match name {
            Item::Keys(keys) => self.has_keys(item, keys),
            Item::Value(value) => self.same(value, item),
            Item::Other => false,
        }
    }

    /// Returns true if an item has these key fields; a key that the item omits was defaulted by the API server (for
    /// example a port's protocol).
    fn has_keys(&self, item: &Value, keys: &Value) -> bool {
        let (Some(item), Some(keys)) = (item.as_object(), keys.as_object()) else { return false };
        let mut any = false;
        let all = keys.iter().all(|(key, value)| match item.get(key) {
            Some(found) => {
                any = true;
                self.same(value, found)
            }
            None => true,
        });
        all && any
    }

    /// Returns true if the value equals the named one.
    fn same(&self, named: &Value, value: &Value) -> bool {
        match (named, value) {
            (Value::String(named), Value::String(text)) if named.contains(CONTROLLER) => {
                named.replace(CONTROLLER, self.controller) == *text
            }
            (Value::Object(named), Value::Object(value)) => {
                named.len() == value.len()
                    && named
                        .iter()
                        .zip(value.iter())
                        .all(|(named, value)| named.0 == value.0 && self.same(named.1, value.1))
            }
            (Value::Array(named), Value::Array(value)) => {
                named.len() == value.len() && named.iter().zip(value).all(|(named, value)| self.same(named, value))
            }
            _ => named == value,
        }
    }
}

#[cfg(test)]
mod tests;
