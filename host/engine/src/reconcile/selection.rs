//! Finds the objects that requirements select in the caches. The time counts into the deadline of the call that is served them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::contract::related::{Needs, Place, ReadProblem, Select};
use windlass_core::contract::snapshot::Served;
use windlass_core::object::Object;
use windlass_core::object::selector::Selector;
use windlass_core::reconcile::world::Selected;
use windlass_core::value::ids::ObjectKey;

use crate::cluster::watch::Store;

/// Time after which other tasks may use the thread.
const PIECE: Duration = Duration::from_millis(1);

/// What a selection may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Time, without that of other tasks.
    pub deadline: Duration,
    /// Size of the selected objects, in bytes. An object that two requirements select counts twice, as in the request.
    pub bytes: u64,
}

/// The label selectors of one kind and place, each with the index of its requirement.
struct Searched<'n> {
    store: &'n Store,
    place: &'n Place,
    selectors: Vec<(usize, &'n Selector)>,
}

/// The objects that these requirements select, each from the cache of its kind, of those that are watched.
///
/// # Errors
/// If the selection would exceed its bounds.
pub(super) async fn select(
    needs: &Needs,
    stores: &[&Store],
    bounds: Bounds,
    clock: impl Fn() -> Instant,
) -> Result<Selected, ReadProblem> {
    let mut found = Found { objects: vec![Vec::new(); needs.len()], bytes: 0, limit: bounds.bytes };
    let (mut places, mut took): (Vec<Searched<'_>>, _) = (Vec::new(), Duration::ZERO);
    let watched = needs.iter().enumerate().filter(|(_, need)| need.select != Select::Nothing);
    for ((at, need), store) in watched.zip(stores) {
        match &need.select {
            Select::Name(name) => {
                named(store, &need.place, name).iter().try_for_each(|object| found.add(at, object))?;
            }
            Select::Nothing => {}
            Select::Labels(selector) => add(&mut places, store, &need.place, (at, selector)),
        }
    }
    for Searched { store, place, selectors } in places {
        let mut began = clock();
        // The labels of each object are read once, for all selectors.
        for object in all(store, place) {
            object.with_labels(|labels| {
                let mut matching = selectors.iter().filter(|(_, selector)| selector.matches(labels));
                matching.try_for_each(|(at, _)| found.add(*at, &object))
            })?;
            let piece = clock().saturating_duration_since(began);
            if took + piece > bounds.deadline {
                return Err(ReadProblem::Slow(bounds.deadline));
            }
            if piece > PIECE {
                took += piece;
                tokio::task::yield_now().await;
                began = clock();
            }
        }
        took += clock().saturating_duration_since(began);
    }
    Ok(Selected { objects: Served::of(needs, found.objects), took })
}

/// Adds the selector of a requirement to those of its kind and place.
fn add<'n>(all: &mut Vec<Searched<'n>>, store: &'n Store, place: &'n Place, selector: (usize, &'n Selector)) {
    let is_same = |searched: &&mut Searched<'_>| std::ptr::eq(searched.store, store) && searched.place == place;
    match all.iter_mut().find(is_same) {
        Some(searched) => searched.selectors.push(selector),
        None => all.push(Searched { store, place, selectors: vec![selector] }),
    }
}

/// All objects of a place.
fn all(store: &Store, place: &Place) -> Vec<Arc<Object>> {
    match place {
        Place::Cluster => store.in_namespace(None),
        Place::In(namespace) => store.in_namespace(Some(namespace)),
        Place::AllBut(_) => store.find(|object| place.has(object.key.namespace.as_deref())),
    }
}

/// The objects of a place that have a name.
fn named(store: &Store, place: &Place, name: &Arc<str>) -> Vec<Arc<Object>> {
    if let Place::AllBut(_) = place {
        return store.find(|object| object.key.name == *name && place.has(object.key.namespace.as_deref()));
    }
    let key = ObjectKey { namespace: place.namespace().cloned(), name: name.clone() };
    store.get(&key).into_iter().collect()
}

/// The objects found so far.
struct Found {
    /// For each requirement.
    objects: Vec<Vec<Arc<Object>>>,
    bytes: u64,
    limit: u64,
}

impl Found {
    fn add(&mut self, at: usize, object: &Arc<Object>) -> Result<(), ReadProblem> {
        self.bytes += object.json.unpacked_size() as u64;
        if self.bytes > self.limit {
            return Err(ReadProblem::TooLarge(self.limit));
        }
        self.objects.get_mut(at).into_iter().for_each(|of_need| of_need.push(object.clone()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::FutureExt;
    use windlass_core::contract::Phase;
    use windlass_core::contract::related::Need;
    use windlass_core::contract::reserved::HostNamespace;
    use windlass_core::contract::snapshot::Snapshot;
    use windlass_core::object::parent::ParentRef;
    use windlass_core::value::ids::Gvk;

    use super::*;
    use crate::cluster::watch::Index;

    const FREE: Bounds = Bounds { deadline: Duration::from_secs(1), bytes: 1 << 20 };

    fn kind() -> Arc<Gvk> {
        Arc::new(Gvk::from_api_version("v1", "ConfigMap"))
    }

    fn store(objects: &[(&str, &str, &str)]) -> Store {
        let store = Store::new(Index::Uid);
        for (namespace, name, tier) in objects {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{namespace}/{name}","resourceVersion":"1",
                "labels":{{"tier":"{tier}"}}}}}}"#
            );
            store.upsert(Object::from_api(&kind(), &text).expect("an object"));
        }
        store
    }

    fn need(id: &str, namespace: &str, select: Select) -> Need {
        Need { id: id.into(), kind: kind(), place: Place::In(namespace.into()), select, metadata_only: false }
    }

    fn labelled(id: &str, namespace: &str, selector: &str) -> Need {
        need(id, namespace, Select::Labels(selector.parse().expect("a selector")))
    }

    /// Selects while each look at the clock takes a millisecond.
    fn selected(store: &Store, needs: &[Need], bounds: Bounds) -> Result<Selected, ReadProblem> {
        let (stores, began, looks) = (vec![store; needs.len()], Instant::now(), Cell::new(0));
        let clock = || {
            looks.set(looks.get() + 1);
            began + Duration::from_millis(looks.get())
        };
        let needs = needs.into();
        let select = select(&needs, &stores, bounds, clock);
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(select)
    }

    fn names(selected: Selected) -> Vec<(String, Vec<String>)> {
        let text = r#"{"metadata":{"name":"web","namespace":"shop","uid":"u","resourceVersion":"1"}}"#;
        let parent = Arc::new(Object::from_api(&kind(), text).expect("an object"));
        let parent_ref = ParentRef::of(&"echo".parse().expect("a name"), &parent, None);
        let mut snapshot = Snapshot::new(parent_ref, parent, [], None, |_| false);
        snapshot.related = selected.objects;
        let related = snapshot.request(Phase::Sync).related.into_iter();
        related.map(|one| (one.id, one.objects.iter().map(|object| object.name.to_string()).collect())).collect()
    }

    #[test]
    fn related_objects_are_selected_by_name_and_by_labels_in_their_namespaces() {
        let store = store(&[("shop", "a", "web"), ("shop", "b", "db"), ("shared", "c", "web"), ("shop", "d", "web")]);
        let needs = [
            labelled("web", "shop", "tier=web"),
            need("b", "shop", Select::Name("b".into())),
            labelled("shared", "shared", "tier"),
            labelled("all", "shop", ""),
            need("none", "shop", Select::Name("c".into())),
            Need { place: Place::AllBut(HostNamespace::new("shared")), ..labelled("webs", "", "tier=web") },
            Need { place: Place::AllBut(HostNamespace::new("host")), ..need("cs", "", Select::Name("c".into())) },
        ];
        let of = |id: &str, names: &[&str]| (id.to_owned(), names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(
            names(selected(&store, &needs, FREE).expect("selected")),
            [
                of("web", &["a", "d"]),
                of("b", &["b"]),
                of("shared", &["c"]),
                of("all", &["a", "b", "d"]),
                of("none", &[]),
                of("webs", &["a", "d"]),
                of("cs", &["c"]),
            ]
        );
    }

    #[test]
    fn related_selection_ends_at_the_deadline_of_a_call_and_its_time_is_known() {
        let objects: Vec<_> = (0..50).map(|n| n.to_string()).collect();
        let objects: Vec<_> = objects.iter().map(|name| ("shop", name.as_str(), "web")).collect();
        let (store, needs) = (store(&objects), [labelled("a", "shop", "tier=web"), labelled("b", "shop", "!tier")]);
        let took = selected(&store, &needs, FREE).expect("selected").took;
        assert!((50..=60).contains(&took.as_millis()), "the labels of each object are read once: {took:?}");
        let deadline = Duration::from_millis(20);
        let problem = selected(&store, &needs, Bounds { deadline, ..FREE }).map(names);
        assert_eq!(problem, Err(ReadProblem::Slow(deadline)));
        let by_name = [need("a", "shop", Select::Name("1".into()))];
        assert_eq!(selected(&store, &by_name, FREE).expect("selected").took, Duration::ZERO);
    }

    #[test]
    fn related_selection_ends_when_the_objects_are_larger_than_a_request() {
        let store = store(&[("shop", "a", "web"), ("shop", "b", "web")]);
        let size: u64 = store.in_namespace(Some("shop")).iter().map(|object| object.json.unpacked_size() as u64).sum();
        let twice: Vec<_> = ["x", "y"].map(|id| labelled(id, "shop", "tier")).into();
        let bounds = |bytes| Bounds { bytes, ..FREE };
        assert!(selected(&store, &twice, bounds(2 * size)).is_ok());
        let problem = selected(&store, &twice, bounds(2 * size - 1)).map(names);
        assert_eq!(problem, Err(ReadProblem::TooLarge(2 * size - 1)));
    }

    #[tokio::test]
    async fn related_selection_by_labels_lets_other_tasks_use_the_thread() {
        let store = store(&[("shop", "a", "web"), ("shop", "b", "web")]);
        let (needs, looks, began): (Needs, _, _) = ([labelled("a", "shop", "")].into(), Cell::new(0), Instant::now());
        let clock = || {
            looks.set(looks.get() + 2);
            began + Duration::from_millis(looks.get())
        };
        assert!(select(&needs, &[&store], FREE, clock).now_or_never().is_none());
    }
}
