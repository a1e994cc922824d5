//! Lists in pages, and watches that begin in the middle of a history.

use serde_json::{Value, json};

use crate::compare::{bare, equal};
use crate::kinds::{Kind, LISTED};
use crate::run::{Course, call};
use crate::watches::{self, bare_event};

/// What a list or a watch selects.
const SELECTORS: [&str; 4] = ["", "labelSelector=a%3D1", "fieldSelector=metadata.name%3Da", "labelSelector=%21b"];

/// The first pages of lists in the middle of a history: their kind and selector, and what each side returned.
pub struct Middle(Vec<(Kind, &'static str, Value, Value)>);

/// A page of a list: its items in order, and how many follow.
fn page(list: &Value) -> Value {
    let items: Vec<_> = list["items"].as_array().into_iter().flatten().map(bare).collect();
    let metadata = &list["metadata"];
    let has_next = metadata["continue"].as_str().is_some_and(|token| !token.is_empty());
    let items: Vec<_> = items.iter().map(|item| item["metadata"].clone()).collect();
    json!({"items": items, "continues": has_next, "left": metadata["remainingItemCount"]})
}

impl Course {
    /// Reads the first page of lists.
    pub async fn begin_middle(&mut self) -> Middle {
        let mut first = Vec::new();
        for (at, kind) in LISTED.into_iter().filter(|kind| kind.is_namespaced()).enumerate() {
            let selector = SELECTORS[(self.home.len() + self.number() + at) % SELECTORS.len()];
            let path = kind.collection(Some(&self.home));
            let (ours, theirs) = self.pages(&path, [&format!("limit=1&{selector}"); 2]).await;
            first.push((kind, selector, ours, theirs));
        }
        Middle(first)
    }

    /// Compares the pages of those lists, the later ones of which must show the state of then, and the events since then.
    pub async fn compare_middle(&mut self, middle: &Middle) -> Result<(), String> {
        for (kind, selector, ours, theirs) in &middle.0 {
            let path = kind.collection(Some(&self.home));
            let (mut ours_now, mut theirs_now) = (ours.clone(), theirs.clone());
            equal("first page", &page(ours), &page(theirs))?;
            while page(&ours_now)["continues"] == true {
                let next = [&ours_now, &theirs_now].map(|list| {
                    let token = list["metadata"]["continue"].as_str().unwrap_or_default();
                    format!(
                        "limit=1&continue={}&{selector}",
                        token.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
                    )
                });
                (ours_now, theirs_now) = self.pages(&path, [&next[0], &next[1]]).await;
                equal("next page", &page(&ours_now), &page(&theirs_now))
                    .map_err(|text| format!("{text}\n{theirs_now}"))?;
            }
            self.compare_later_events(&path, selector, [ours, theirs].map(|list| &list["metadata"]["resourceVersion"]))
                .await?;
        }
        Ok(())
    }

    async fn compare_later_events(&mut self, path: &str, selector: &str, versions: [&Value; 2]) -> Result<(), String> {
        let metadata_only = self.number().is_multiple_of(2);
        let query =
            |version: &Value| format!("watch=true&resourceVersion={}&{selector}", version.as_str().unwrap_or_default());
        let mut watch = call("GET", path, &query(versions[0]), None);
        watch.metadata_only = metadata_only;
        let mut cursor = self.model.watch(&watch).expect("a watch");
        let ours: Vec<_> =
            std::iter::from_fn(|| self.model.next_event(&mut cursor)).map(|event| bare_event(&event)).collect();
        let url = format!("{path}?{}", query(versions[1]));
        let theirs = watches::first(&self.client, url, metadata_only, ours.len()).await;
        let theirs: Vec<_> = theirs.iter().map(bare_event).collect();
        equal(&format!("later events of {path} {selector}"), &ours.into(), &theirs.into())
    }

    /// A list on both sides, each with its query.
    async fn pages(&mut self, path: &str, queries: [&String; 2]) -> (Value, Value) {
        let ours = self.model.respond(&call("GET", path, queries[0], None));
        let url = format!("{path}?{}", queries[1]);
        let (_, theirs) = self.ask(crate::connection::Send::json(http::Method::GET, &url, Value::Null)).await;
        (ours.body, theirs)
    }

    /// The number of the history.
    fn number(&self) -> usize {
        self.home.rsplit('x').next().and_then(|number| number.parse().ok()).unwrap_or_default()
    }
}
