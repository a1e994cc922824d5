//! The result of a call in little memory: its documents are compressed together, because children resemble each other.

use lz4_flex::block::{compress, decompress};

use crate::contract::{
    CallFailure, ChildOptions, ChildRef, Event, Failure, Keep, Namespaces, PluginResult, Requirement, Response,
    Selection,
};
use crate::value::ids::Gvk;
use crate::value::memory::{self, allocated};

/// A result whose documents are compressed.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptResult {
    /// The result without its documents; of a status, an empty one is left.
    rest: Result<PluginResult, CallFailure>,
    /// The documents: the children, then the status if there is one.
    block: Box<[u8]>,
    /// The length of each document, in bytes.
    lengths: Box<[usize]>,
}

impl KeptResult {
    /// Compresses a result.
    pub fn new(result: &Result<PluginResult, CallFailure>) -> Self {
        let Ok(Ok(response)) = result else {
            return Self { rest: result.clone(), block: Box::default(), lengths: Box::default() };
        };
        let documents = || response.children.iter().chain(&response.status);
        let mut all = Vec::with_capacity(documents().map(Vec::len).sum());
        documents().for_each(|document| all.extend_from_slice(document));
        let rest = Response {
            children: Vec::new(),
            options: response.options.clone(),
            keep: response.keep.clone(),
            waiting: response.waiting.clone(),
            status: response.status.as_ref().map(|_| Vec::new()),
            requeue: response.requeue,
            requeue_at: response.requeue_at,
            events: response.events.clone(),
            requirements: response.requirements.clone(),
            http: response.http.clone(),
            finalized: response.finalized,
        };
        Self { rest: Ok(Ok(rest)), block: compress(&all).into(), lengths: documents().map(Vec::len).collect() }
    }

    /// The result as the call returned it.
    pub fn restore(&self) -> Result<PluginResult, CallFailure> {
        let Ok(Ok(rest)) = &self.rest else { return self.rest.clone() };
        // This process compressed the block, so it is intact.
        let all = decompress(&self.block, self.lengths.iter().sum()).unwrap_or_default();
        let mut rest_of = all.as_slice();
        let mut documents: Vec<Vec<u8>> = Vec::with_capacity(self.lengths.len());
        for length in &self.lengths {
            let (document, after) = rest_of.split_at_checked(*length).unwrap_or_default();
            documents.push(document.to_vec());
            rest_of = after;
        }
        let status = rest.status.as_ref().and_then(|_| documents.pop());
        Ok(Ok(Response { children: documents, status, ..rest.clone() }))
    }

    /// Memory that the result takes on the heap, in bytes.
    pub fn size(&self) -> usize {
        let texts = match &self.rest {
            Ok(Ok(response)) => {
                let events = response.events.iter();
                let events = events.map(|Event { reason, message, .. }| {
                    size_of::<Event>() + allocated(reason.len()) + allocated(message.len())
                });
                let options = response.options.iter().map(|options| {
                    allocated(size_of_val::<[_]>(options)) + options.iter().map(size_of_texts).sum::<usize>()
                });
                let requirements = response.requirements.iter().map(size_of_requirement);
                let http = response.http.iter().map(|id| size_of::<String>() + allocated(id.len()));
                let kept = match &response.keep {
                    Keep::These(children) => {
                        allocated(size_of_val::<[_]>(children)) + children.iter().map(size_of_ref).sum::<usize>()
                    }
                    Keep::None | Keep::All => 0,
                };
                let waiting = response.waiting.as_ref().map_or(0, |waiting| allocated(waiting.len()));
                kept + waiting
                    + events.sum::<usize>()
                    + http.sum::<usize>()
                    + options.sum::<usize>()
                    + requirements.sum::<usize>()
            }
            Ok(Err(Failure::Invalid(message) | Failure::Failed(message) | Failure::Retry { message, .. })) => {
                allocated(message.len())
            }
            // It contains all texts of the failure.
            Err(failure) => allocated(failure.to_string().len()),
        };
        allocated(self.block.len()) + allocated(size_of_val::<[usize]>(&self.lengths)) + texts
    }
}

fn size_of_texts(ChildOptions { once, replaces, .. }: &ChildOptions) -> usize {
    once.as_ref().map_or(0, |once| allocated(once.len())) + replaces.as_ref().map_or(0, size_of_ref)
}

fn size_of_ref(ChildRef { kind, namespace, name }: &ChildRef) -> usize {
    let texts = [Some(&*kind.group), Some(&*kind.version), Some(&*kind.kind), namespace.as_deref(), Some(name)];
    texts.into_iter().flatten().map(|text| allocated(text.len())).sum()
}

fn size_of_requirement(requirement: &Requirement) -> usize {
    let Requirement { id, kind: Gvk { group, version, kind }, namespaces, select, metadata_only: _ } = requirement;
    let (Selection::Name(select) | Selection::Labels(select)) = select;
    let kind = [&**group, &**version, &**kind].iter().map(|text| memory::shared(text.len())).sum::<usize>();
    let names = if let Namespaces::Named(names) = namespaces { &**names } else { &[] };
    let texts = [id, select].into_iter().chain(names).map(|text| allocated(text.len()));
    let list = allocated(size_of_val(names));
    size_of::<Requirement>() + kind + list + texts.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::EventType;

    #[test]
    fn result_is_restored_byte_for_byte_and_takes_a_fraction_of_its_size() {
        let pod = |at: usize| format!(r#"{{"kind":"Pod","metadata":{{"name":"web-{at}"}},"spec":{{}}}}"#).into_bytes();
        let children: Vec<_> = (0..100).map(pod).collect();
        let size: usize = children.iter().map(Vec::len).sum();
        for status in [None, Some(br#"{"ready": 1}"#.to_vec())] {
            let response = Response { children: children.clone(), status, requeue: Some(5), ..Response::default() };
            let result = Ok(Ok(response));
            let kept = KeptResult::new(&result);
            assert_eq!(kept.restore(), result);
            assert!(kept.block.len() < size / 4, "{}", kept.block.len());
        }
        for result in
            [Ok(Err(Failure::Failed("a".into()))), Err(CallFailure::StackOverflow), Ok(Ok(Response::default()))]
        {
            assert_eq!(KeptResult::new(&result).restore(), result);
        }
    }

    #[test]
    fn size_of_a_result_covers_every_text() {
        const LONG: usize = 1 << 20;
        let long = || "x".repeat(LONG);
        let requirement = |namespace: Option<String>, select| Response {
            requirements: vec![Requirement {
                id: "id".to_owned(),
                kind: Gvk::from_api_version("v1", "Secret"),
                namespaces: namespace.map_or_else(Namespaces::default, |name| Namespaces::Named(vec![name])),
                select,
                metadata_only: false,
            }],
            ..Response::default()
        };
        let event = Event { event_type: EventType::Normal, reason: "A".to_owned(), message: long() };
        let with = |options: ChildOptions| Response { options: Some([options].into()), ..Response::default() };
        let old = ChildRef { kind: Gvk::from_api_version("v1", "Pod"), namespace: None, name: long() };
        for result in [
            Ok(Err(Failure::Failed(long()))),
            Ok(Err(Failure::Invalid(long()))),
            Ok(Err(Failure::Retry { message: long(), after: 1 })),
            Err(CallFailure::Trap(long())),
            Err(CallFailure::Exit(Some(long()))),
            Err(CallFailure::UnsupportedImport(long())),
            Ok(Ok(Response { events: vec![event], ..Response::default() })),
            Ok(Ok(with(ChildOptions { once: Some(long()), ..ChildOptions::default() }))),
            Ok(Ok(with(ChildOptions { replaces: Some(old), ..ChildOptions::default() }))),
            Ok(Ok(requirement(None, Selection::Labels(long())))),
            Ok(Ok(requirement(None, Selection::Name(long())))),
            Ok(Ok(requirement(Some(long()), Selection::Name(String::new())))),
        ] {
            let size = KeptResult::new(&result).size();
            assert!((LONG..LONG + 4096).contains(&size), "{size}");
        }
    }
}
