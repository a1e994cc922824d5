//! Finds the fields of a live object that a create of the desired object would not set, and that no other manager owns.
//!
//! The API server sets defaults where fields are absent, and after an apply no manager owns them. So a default stays when the value changes
//! from which it was derived (kubernetes#24198): `imagePullPolicy` beside another image, `rollingUpdate` beside the type `Recreate`. An apply
//! removes such a field if the host's Apply entry owns it. If a create would set another value, the apply sets it.

use std::collections::{BTreeMap, BTreeSet};

use super::finder::Finder;
use super::trees::{Near, keep_near, subtract, unite, without_indices};
use super::{CONTROLLER, Entry, Item, ItemMatcher, ManagedFields, Node, Nodes, owns_outside};
use crate::value::ids::Uid;
use crate::value::json::{self, Map, Value};

/// Fields that the API server allocates: a create would give other values.
pub(super) const ALLOCATED: [&str; 4] = ["clusterIP", "clusterIPs", "healthCheckNodePort", "nodePort"];

/// How the apply of a desired object gives the object that a create would give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correction {
    /// The desired object, with the values that a create would give to fields that have others.
    pub body: Map,
    /// What the host's entry must own before the apply; none if it owns exactly that.
    pub own: Option<Ownership>,
    /// Whether that entry is the one of the host's POST: it must become an Apply entry.
    pub is_of_post: bool,
    /// What entries of other managers own after fields have been taken from them.
    pub taken: Vec<Ownership>,
    /// Maps that must be empty before the apply, as JSON pointers: it would make `null` of them.
    pub emptied: Vec<String>,
}

/// What an entry of `managedFields` is to own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ownership {
    /// The entry's index in the list.
    pub index: usize,
    /// Its `fieldsV1`.
    pub fields: Map,
}

impl ManagedFields {
    /// Whether a live object has fields beside the desired ones, except in its metadata, that no other manager owns. An apply may leave them
    /// as they are, or remove what admission sets at a create alone.
    pub fn may_be_stale(&self, desired: &Map, live: &Map) -> bool {
        // As if a create gave what is desired, and nothing more.
        let is_stale = |entry| !self.compare((entry, Others::All), desired, live, desired).1.stale.is_empty();
        self.entry().is_some_and(is_stale)
    }

    /// Whether the host's entry owns fields beside the desired ones, except in the metadata: an apply would remove them.
    pub fn owns_more(&self, desired: &Map) -> bool {
        // Only metadata names the controller.
        let names = ItemMatcher { controller: "" };
        let mut fields = self.entry().and_then(Entry::tree).into_iter().flat_map(|tree| &tree.fields);
        fields.any(|(field, node)| {
            is_compared(field) && desired.get(field).is_none_or(|found| owns_outside(node, found, &names))
        })
    }

    /// The entry that says what is the host's own: before the first apply, that of its POST.
    pub(super) fn entry(&self) -> Option<&Entry> {
        self.apply.as_ref().or(self.update.as_ref())
    }

    /// Compares a live object with a fresh one, as a create of the desired object would give it. None if no entry of the host is there that
    /// could own something, or if an entry is in terms of another version of the kind. `controller` is the UID of the object's controller.
    ///
    /// If the API server has refused an apply, `refused` are the fields that it named. Then fields near them also go that managers own who
    /// changed the object in place: those that a fresh object lacks, and of those with another value only the ones that are named, or are
    /// members of the union of a named one.
    pub fn correct<'a>(
        &self,
        desired: &Map,
        [live, fresh]: [&Map; 2],
        controller: Option<&Uid>,
        refused: &[&'a str],
    ) -> Option<Correction> {
        let entry = self.entry()?;
        let version = desired.get("apiVersion").and_then(Value::as_str)?;
        if self.others.iter().chain([entry]).any(|entry| entry.version != version) {
            return None;
        }
        let (body, mut found) = self.compare((entry, Others::All), desired, live, fresh);
        let mut taken = Map::default();
        if !refused.is_empty() {
            let near: Vec<_> = refused.iter().map(|field| without_indices(field)).collect();
            let mut of_editors = self.compare((entry, Others::NoEditors), desired, live, fresh).1;
            keep_near(&mut of_editors.stale, "", &near, Near::Within);
            keep_near(&mut of_editors.other, "", &near, Near::Exactly);
            taken = of_editors.other;
            unite(&mut taken, &of_editors.stale);
            unite(&mut found.stale, &taken);
        }
        let controller = controller.map(ToString::to_string).unwrap_or_default();
        let changed = |entry: &Entry, change: &dyn Fn(&mut Map)| {
            let text = entry.fields.text.replace(CONTROLLER, &controller);
            let Ok(Value::Object(before)) = json::parse(text.as_bytes(), json::OBJECT_DEPTH) else { return None };
            let mut fields = before.clone();
            change(&mut fields);
            (fields != before).then_some(Ownership { index: entry.index, fields })
        };
        let own = changed(entry, &|fields| {
            subtract(fields, &found.kept);
            unite(fields, &found.stale);
        });
        let editors = self.others.iter().filter(|other| other.edits);
        let taken = editors.filter_map(|other| changed(other, &|fields| subtract(fields, &taken))).collect::<Vec<_>>();
        // The API server may name a field in the map, or the map itself.
        let around =
            |field: &'a str| field.match_indices(['.', '[']).map(|(at, _)| field.split_at(at).0).chain([field]);
        let maps: BTreeSet<_> = refused.iter().flat_map(|field| around(field)).collect();
        let emptied = maps.into_iter().filter(|map| self.is_emptied(map, [desired, live, fresh], &taken));
        let pointer = |map: &str| format!("/{}", map.replace('~', "~0").replace('/', "~1").replace('.', "/"));
        let emptied = emptied.map(pointer).collect();
        Some(Correction { body, own, is_of_post: self.apply.is_none(), taken, emptied })
    }

    /// Whether an apply would remove all that is in a map that is desired to be empty, after fields have been taken from managers.
    fn is_emptied(&self, map: &str, [desired, live, fresh]: [&Map; 3], taken: &[Ownership]) -> bool {
        let path: Vec<_> = map.split('.').collect();
        let Some((first, rest)) = path.split_first() else { return false };
        let is_empty = |object: &Map| Some(object.get(first)?.at(rest)?.as_object()?.is_empty());
        let owns_below = |tree: &Node| {
            let node = path.iter().try_fold(tree, |node, field| node.field(field));
            node.is_some_and(Node::has_below)
        };
        let owns = |other: &Entry| {
            let left = taken.iter().find(|taken| taken.index == other.index).map(|taken| Node::of(&taken.fields));
            // What cannot be read may own something.
            left.as_ref().or_else(|| other.tree()).is_none_or(owns_below)
        };
        is_compared(first)
            && (is_empty(desired), is_empty(live)) == (Some(true), Some(false))
            && is_empty(fresh) != Some(false)
            && !self.others.iter().any(owns)
    }

    /// Returns the desired object with the values that a fresh one has, and what the object has beside it.
    fn compare(&self, (entry, others): (&Entry, Others), desired: &Map, live: &Map, fresh: &Map) -> (Map, Found) {
        let (others, names): (Vec<_>, Vec<_>) =
            self.others.iter().partition(|other| others == Others::All || !other.edits);
        // The fields that an object had when its managedFields were cleared may be those of any manager.
        let others = others.into_iter().chain(&self.cleared).filter_map(Entry::tree).collect();
        let names = names.into_iter().filter_map(Entry::tree).collect();
        let nodes = Nodes { ours: entry.tree().into_iter().collect(), others, names };
        let (mut body, mut found) = (desired.clone(), Found::default());
        for (key, live) in live.iter().filter(|(key, _)| is_compared(key)) {
            found.field(&nodes, key, (live, fresh.get(key)), &mut body);
        }
        (body, found)
    }
}

fn is_compared(field: &str) -> bool {
    !matches!(field, "apiVersion" | "kind" | "metadata" | "status")
}

/// The other managers whose fields stay.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    All,
    /// Those that do not change the object in place.
    NoEditors,
}

/// What an object has beside what is desired, as trees of `fieldsV1`.
#[derive(Default)]
struct Found {
    /// Fields of the host's entry that a fresh object has with the same value: an apply must not remove them, because admission may set them
    /// at a create alone.
    kept: Map,
    /// Fields that a fresh object lacks.
    stale: Map,
    /// Fields that a fresh object has with another value.
    other: Map,
}

impl Found {
    /// Compares a field of a live map with that of a fresh one (`values`). `desired` is the map at the same place.
    fn field(&mut self, nodes: &Nodes<'_>, key: &str, values: (&Value, Option<&Value>), desired: &mut Map) {
        let below = nodes.below(key);
        let mut inside = Self::default();
        match (desired.get_mut(key), values) {
            (Some(desired), (live, fresh)) => inside.within(&below, (live, fresh), desired),
            (None, (live @ Value::Array(_), fresh)) if below.have_items() => {
                inside.within(&below, (live, fresh), &mut Value::Array(Vec::new()));
            }
            (None, (live, fresh)) if !below.others.is_empty() => {
                let mut added = Value::Object(Map::default());
                inside.within(&below, (live, fresh), &mut added);
                if added.as_object().is_some_and(|added| !added.is_empty()) {
                    desired.insert(key, added);
                }
            }
            (None, (live, Some(fresh))) if live == fresh || ALLOCATED.contains(&key) => {
                if !below.ours.is_empty() {
                    self.kept.insert(&format!("f:{key}"), Map::default());
                }
            }
            (None, (live, Some(fresh))) => {
                if !matches!((live, fresh), (Value::Object(_), Value::Object(_))) {
                    self.other.insert(&format!("f:{key}"), Map::default());
                }
                // An apply without a map removes all of it, also what nobody owns; one with an empty map removes nothing.
                inside.within(&below, (live, Some(fresh)), &mut fresh.clone());
                if fresh.as_object().is_none_or(|fresh| !fresh.is_empty()) {
                    desired.insert(key, fresh.clone());
                }
            }
            (None, (_, None)) => {
                self.stale.insert(&format!("f:{key}"), Map::default());
            }
        }
        self.add(&format!("f:{key}"), inside);
    }

    /// Compares the fields or items of a value, unless another manager owns the value as a whole.
    fn within(&mut self, nodes: &Nodes<'_>, values: (&Value, Option<&Value>), desired: &mut Value) {
        if nodes.others.iter().any(|node| node.is_empty()) {
            return;
        }
        match (values.0, desired) {
            (Value::Object(live), Value::Object(desired)) => {
                let fresh = values.1.and_then(Value::as_object);
                for (key, live) in live.iter() {
                    self.field(nodes, key, (live, fresh.and_then(|fresh| fresh.get(key))), desired);
                }
            }
            (Value::Array(live), Value::Array(desired)) => {
                self.items(nodes, (live, values.1.and_then(Value::as_array).unwrap_or_default()), desired);
            }
            _ => {}
        }
    }

    /// Compares the items of a list that entries name by keys. Other items have no owner by which to tell them apart.
    fn items<'n>(&mut self, nodes: &Nodes<'n>, (live, fresh): (&[Value], &[Value]), desired: &mut [Value]) {
        // Items of lists with keys have no ownerReferences.
        let names = ItemMatcher { controller: "" };
        let all = || nodes.ours.iter().chain(&nodes.others).chain(&nodes.names).copied();
        let by_keys = |name: &'n Item| if let Item::Keys(keys) = name { Some((keys.to_string(), name)) } else { None };
        let items: BTreeMap<_, _> = all().flat_map(|node| &node.items).filter_map(|(name, _)| by_keys(name)).collect();
        let (live, fresh) = (Finder::of(live, all()), Finder::of(fresh, all()));
        let wanted = Finder::of(desired, all());
        let places: Vec<_> = items.values().map(|name| wanted.all(name, &names).first().copied()).collect();
        for ((keys, name), place) in items.into_iter().zip(places) {
            let Some(live) = live.first(name, &names) else { continue };
            let fresh = fresh.first(name, &names);
            let below = nodes.item(name);
            let mut inside = Self::default();
            // An apply removes an item that the host's entry alone owns, with all that is in it.
            let goes = below.names.is_empty() && below.ours.iter().all(|node| node.itself);
            // A desired item may lack a key that has a default: the fresh object has all keys.
            match place.filter(|_| fresh.is_some()).and_then(|at| desired.get_mut(at)) {
                Some(desired) => inside.within(&below, (live, fresh), desired),
                // An item that admission adds.
                None if fresh == Some(live) && below.others.is_empty() => {
                    self.kept.insert(&format!("k:{keys}"), Map::default());
                }
                None if fresh.is_none() && below.others.is_empty() && !below.ours.is_empty() && !goes => {
                    self.stale.insert(&format!("k:{keys}"), Map::default());
                }
                None => {}
            }
            self.add(&format!("k:{keys}"), inside);
        }
    }

    fn add(&mut self, name: &str, inside: Self) {
        let each = [(&mut self.kept, inside.kept), (&mut self.stale, inside.stale), (&mut self.other, inside.other)];
        for (all, inside) in each {
            if !inside.is_empty() {
                all.insert(name, inside);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{managed, map};
    use super::*;

    /// What an apply must set and own for the change of `live` to `desired`, which a create would give as `fresh`; `ours` and `others` are
    /// the `fieldsV1` of the host's entry and of another manager's. All are specs.
    fn corrected(
        operation: &str,
        [ours, others]: [&str; 2],
        [live, desired, fresh]: [&str; 3],
    ) -> (String, Option<String>) {
        let object = |spec: &str| {
            map(&format!(r#"{{"apiVersion":"v1","kind":"Thing","metadata":{{"name":"x"}},"spec":{spec}}}"#))
        };
        // An empty node would own all of the spec.
        let entry = |spec: &str| if spec == "{}" { spec.to_owned() } else { format!(r#"{{"f:spec":{spec}}}"#) };
        let (ours, others) = (entry(ours), entry(others));
        let managed = managed(&[("kubectl", "Update", &others), ("windlass", operation, &ours)]);
        let correction =
            managed.correct(&object(desired), [&object(live), &object(fresh)], None, &[]).expect("a correction");
        let spec = |map: &Map, name: &str| map.get(name).map(ToString::to_string).unwrap_or_default();
        assert!(correction.own.iter().all(|entry| entry.index == 1));
        assert_eq!((correction.is_of_post, correction.taken), (operation == "Update", Vec::new()));
        let entry = correction.own.map(|entry| spec(&entry.fields, "f:spec"));
        (spec(&correction.body, "spec"), entry)
    }

    fn sorted(spec: &str) -> String {
        Value::from(map(spec)).to_string()
    }

    #[test]
    fn r21_default_that_a_create_would_not_set_is_owned_so_that_the_apply_removes_it() {
        let recreate = r#"{"strategy":{"type":"Recreate"}}"#;
        let live = r#"{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}},"grace":30}"#;
        let fresh = r#"{"strategy":{"type":"Recreate"},"grace":30}"#;
        let ours = r#"{"f:strategy":{"f:type":{}}}"#;
        let owned = r#"{"f:strategy":{"f:rollingUpdate":{},"f:type":{}}}"#;
        assert_eq!(corrected("Apply", [ours, "{}"], [live, recreate, fresh]), (recreate.into(), Some(owned.into())));
        let others = r#"{"f:strategy":{"f:rollingUpdate":{"f:maxSurge":{}}}}"#;
        assert_eq!(
            corrected("Apply", [ours, others], [live, recreate, fresh]),
            (recreate.into(), None),
            "a user's field stays"
        );
        let others = r#"{"f:strategy":{"f:rollingUpdate":{"f:maxUnavailable":{}}}}"#;
        let owned = r#"{"f:strategy":{"f:rollingUpdate":{"f:maxSurge":{}},"f:type":{}}}"#;
        assert_eq!(corrected("Apply", [ours, others], [live, recreate, fresh]).1, Some(owned.into()));
    }

    #[test]
    fn r21_default_of_another_value_is_set_by_the_apply() {
        let live = r#"{"containers":[{"name":"b","image":"b:1","policy":"IfNotPresent"},{"name":"a","image":"a:1","policy":"IfNotPresent"}]}"#;
        let desired = r#"{"containers":[{"image":"a:latest","name":"a"},{"image":"b:2","name":"b"}]}"#;
        let fresh = r#"{"containers":[{"name":"a","image":"a:latest","policy":"Always"},{"name":"b","image":"b:2","policy":"IfNotPresent"}]}"#;
        let ours = r#"{"f:containers":{"k:{\"name\":\"a\"}":{".":{},"f:image":{},"f:name":{}},"k:{\"name\":\"b\"}":{".":{},"f:image":{},"f:name":{}}}}"#;
        let set = r#"{"containers":[{"image":"a:latest","name":"a","policy":"Always"},{"image":"b:2","name":"b"}]}"#;
        assert_eq!(corrected("Apply", [ours, "{}"], [live, desired, fresh]), (set.into(), None));
        let others = r#"{"f:containers":{"k:{\"name\":\"a\"}":{"f:policy":{}}}}"#;
        assert_eq!(
            corrected("Apply", [ours, others], [live, desired, fresh]),
            (desired.into(), None),
            "a user's value stays"
        );
    }

    #[test]
    fn r21_first_apply_after_the_create_removes_no_field_that_a_create_would_set() {
        let live = r#"{"class":"usual","strategy":{"type":"Rolling","max":1},"dropped":1,"image":"a"}"#;
        let (desired, fresh) =
            (r#"{"image":"b"}"#, r#"{"class":"usual","strategy":{"type":"Rolling","max":1},"image":"b"}"#);
        let ours = r#"{"f:class":{},"f:dropped":{},"f:image":{},"f:strategy":{".":{},"f:max":{},"f:type":{}}}"#;
        let owned = r#"{"f:dropped":{},"f:image":{}}"#;
        assert_eq!(corrected("Update", [ours, "{}"], [live, desired, fresh]), (desired.into(), Some(owned.into())));
    }

    #[test]
    fn r21_map_that_another_manager_owns_as_a_whole_stays() {
        let (live, desired, fresh) =
            (r#"{"a":1,"unit":{"name":"s"}}"#, r#"{"a":2}"#, r#"{"a":2,"unit":{"name":"kg"}}"#);
        let others = r#"{"f:unit":{}}"#;
        assert_eq!(corrected("Apply", [r#"{"f:a":{}}"#, others], [live, desired, fresh]), (desired.into(), None));
    }

    #[test]
    fn r21_map_that_was_desired_as_an_empty_one_is_compared() {
        let live = r#"{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}}}"#;
        let recreate = r#"{"strategy":{"type":"Recreate"}}"#;
        let owned = corrected("Apply", [r#"{"f:strategy":{}}"#, "{}"], [live, recreate, recreate]).1;
        assert_eq!(owned.as_deref(), Some(r#"{"f:strategy":{"f:rollingUpdate":{}}}"#));
    }

    #[test]
    fn r21_map_that_is_no_longer_desired_becomes_that_of_a_create_with_what_nobody_owns_in_it() {
        let live = r#"{"a":1,"update":{"type":"OnDelete","by-admission":1,"old":1}}"#;
        let fresh = r#"{"a":1,"update":{"type":"Rolling","rolling":{"partition":0},"by-admission":1}}"#;
        let (ours, owned) =
            (r#"{"f:a":{},"f:update":{"f:type":{}}}"#, r#"{"f:a":{},"f:update":{"f:old":{},"f:type":{}}}"#);
        let expected = (sorted(fresh), Some(owned.to_owned()));
        assert_eq!(corrected("Apply", [ours, "{}"], [live, r#"{"a":1}"#, fresh]), expected);
    }

    #[test]
    fn r21_allocated_fields_go_only_if_a_create_would_allocate_none() {
        let live = r#"{"clusterIP":"10.0.0.1","ports":[{"port":1,"nodePort":30000}]}"#;
        let fresh = r#"{"clusterIP":"10.0.0.2","ports":[{"port":1,"nodePort":30001}]}"#;
        let ours = r#"{"f:ports":{"k:{\"port\":1}":{".":{},"f:port":{}}}}"#;
        let desired = r#"{"ports":[{"port":1}]}"#;
        assert_eq!(corrected("Apply", [ours, "{}"], [live, desired, fresh]), (desired.into(), None));
        let owned = r#"{"f:clusterIP":{},"f:ports":{"k:{\"port\":1}":{".":{},"f:nodePort":{},"f:port":{}}}}"#;
        assert_eq!(corrected("Apply", [ours, "{}"], [live, desired, desired]).1, Some(owned.into()));
    }

    #[test]
    fn r21_nothing_is_corrected_without_an_entry_of_the_host_in_the_same_version() {
        let spec = |spec: &str| map(&format!(r#"{{"apiVersion":"v2","spec":{spec}}}"#));
        for manager in ["windlass", "kubectl"] {
            let managed = managed(&[(manager, "Apply", r#"{"f:spec":{"f:a":{}}}"#)]);
            assert_eq!(
                managed.correct(&spec(r#"{"a":1}"#), [&spec(r#"{"b":1}"#), &spec("{}")], None, &[]),
                None,
                "{manager}"
            );
        }
    }

    #[test]
    fn r21_field_that_was_there_when_managed_fields_were_cleared_may_be_a_users() {
        let spec = |spec: &str| map(&format!(r#"{{"apiVersion":"v1","spec":{spec}}}"#));
        let all = r#"{"f:spec":{"f:a":{},"f:users":{}}}"#;
        let managed =
            managed(&[("before-first-apply", "Update", all), ("windlass", "Apply", r#"{"f:spec":{"f:a":{}}}"#)]);
        let (live, desired) = (spec(r#"{"a":1,"users":1}"#), spec(r#"{"a":2}"#));
        let correction = managed.correct(&desired, [&live, &desired], None, &[]);
        assert_eq!(correction.map(|correction| correction.own), Some(None));
    }

    #[test]
    fn r21_member_of_a_union_that_a_user_chose_goes_only_if_the_api_server_names_a_field_near_it() {
        let item = |fields: &str| map(&format!(r#"{{"apiVersion":"v1","spec":{{"env":[{{"name":"A",{fields}}}]}}}}"#));
        let (live, desired) = (item(r#""value":"1","more":"2""#), item(r#""valueFrom":{"x":1}"#));
        let entry =
            |fields: &str| format!(r#"{{"f:spec":{{"f:env":{{"k:{{\"name\":\"A\"}}":{{".":{{}}{fields}}}}}}}}}"#);
        let (ours, user) = (entry(r#","f:name":{}"#), entry(r#","f:more":{},"f:value":{}"#));
        let fresh = item(r#""valueFrom":{"x":1},"more":"3""#);
        let fields = |operation: &str, refused: &[&str]| {
            let managed = managed(&[("windlass", "Apply", &ours), ("kubectl", operation, &user)]);
            let correction = managed.correct(&desired, [&live, &fresh], None, refused).expect("a correction");
            let entries = correction.own.into_iter().chain(correction.taken);
            entries.map(|entry| (entry.index, Value::from(entry.fields).to_string())).collect::<Vec<_>>()
        };
        for refused in ["spec.env[0].valueFrom", "spec.env[0]", "spec.env[0].value.inside"] {
            let taken = fields("Update", &[refused]);
            let [(0, ours), (1, user)] = &*taken else { panic!("{taken:?}") };
            assert!(ours.contains(r#""f:value":{}"#), "{refused}: {ours}");
            assert_eq!(*user, entry(r#","f:more":{}"#), "{refused}: another value stays unless it is named");
        }
        let [_, (1, user)] = &*fields("Update", &["spec.env[0].more"]) else { panic!("the user set another value") };
        assert_eq!(*user, entry(r#","f:value":{}"#));
        assert_eq!(fields("Update", &["spec.replicas"]), []);
        assert_eq!(
            fields("Apply", &["spec.env[0].valueFrom"]),
            [],
            "the fields of a manager that applies the object stay"
        );
    }

    #[test]
    fn r21_default_in_an_item_of_a_list_may_be_stale() {
        let spec = |more: &str| map(&format!(r#"{{"apiVersion":"v1","spec":{{"items":[{{"name":"a"{more}}}]}}}}"#));
        let ours = r#"{"f:spec":{"f:items":{"k:{\"name\":\"a\"}":{".":{},"f:image":{},"f:name":{}}}}}"#;
        let managed = managed(&[("windlass", "Apply", ours)]);
        let desired = spec(r#","image":"a:2""#);
        assert!(managed.may_be_stale(&desired, &spec(r#","image":"a:1","policy":"IfNotPresent""#)));
        assert!(!managed.may_be_stale(&desired, &spec(r#","image":"a:1""#)));
    }

    #[test]
    fn r21_map_with_a_field_that_a_create_would_set_is_not_emptied() {
        let spec = |map_of: &str| map(&format!(r#"{{"apiVersion":"v1","spec":{{"map":{map_of}}}}}"#));
        let managed = managed(&[("windlass", "Apply", r#"{"f:spec":{"f:map":{"f:a":{}}}}"#)]);
        let (desired, live) = (spec("{}"), spec(r#"{"a":1,"by-admission":1}"#));
        let emptied = |fresh: &str| {
            let correction = managed.correct(&desired, [&live, &spec(fresh)], None, &["spec.map.a"]);
            correction.expect("a correction").emptied
        };
        assert_eq!(emptied("{}"), ["/spec/map"]);
        assert_eq!(emptied(r#"{"by-admission":1}"#), [""; 0]);
    }
}
