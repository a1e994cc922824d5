//! A Kubernetes object: a small parsed header and the JSON bytes, which pass to the guest unparsed.
//!
//! The bytes are what the API server sent, without `metadata.managedFields` (half of a Pod, and of no use to a plugin)
//! and with `apiVersion` and `kind` added where a list omitted them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::object::managed::ManagedFields;
use crate::object::names;
use crate::object::selector::{KeptLabels, Labels};
use crate::value::digest::Digest;
use crate::value::ids::{GroupKind, Gvk, ObjectKey, Uid};
use crate::value::json::{self, Map, Value};
use crate::value::memory;
use crate::value::packed::Json;

/// An object in a cache.
#[derive(Debug, Clone)]
pub struct Object {
    /// The kind under which the host requested the object; shared by all objects of a cache.
    pub kind: Arc<Gvk>,
    /// Namespace and name.
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion` as a number (comparable within a kind: KEP-5504).
    pub resource_version: u64,
    /// `metadata.generation`; `None` for kinds without one.
    pub generation: Option<i64>,
    /// Whether a deletion timestamp is set.
    pub deleting: bool,
    /// `metadata.finalizers`.
    pub finalizers: Box<[Box<str>]>,
    /// UID in the controller ownerReference; `None` if there is no controller.
    pub controller: Option<Uid>,
    /// The plugin label, and the annotations under the host's prefix.
    pub marks: Marks,
    /// UID in the parent label; `None` if there is no such label.
    pub labelled: Option<Uid>,
    /// Whether the HMAC in the annotation `windlass.dev/mark` is valid (see [`crate::object::mark`]), if it was checked.
    pub(crate) checked: Checked,
    /// Hash of the labels and annotations that are neither in `marks` nor the parent label; comparable in this process
    /// only.
    pub others_marks: u64,
    /// The labels, so that selectors need not unpack the object; `None` if they are too large to be kept, or if no selector reads them in
    /// this cache. [`with_labels`](Self::with_labels) returns them in either case.
    pub labels: Option<KeptLabels>,
    /// The fields that the host owns.
    pub managed: Arc<ManagedFields>,
    /// SHA-256 of `json`.
    pub content: Digest,
    /// The object's JSON.
    pub json: Json,
}

/// The plugin label and the annotations under the host's prefix: names without the prefix and values in turn, each
/// terminated by NUL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks(Box<str>);

impl Marks {
    fn collect<'a>(marks: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut text = String::new();
        for (key, value) in marks {
            // NUL separates the parts of this text. The host writes no annotation that contains it.
            if let (Some(name), false) = (key.strip_prefix(names::ANNOTATION_PREFIX), value.contains('\0')) {
                text.extend([name, "\0", value, "\0"]);
            }
        }
        Self(text.into())
    }

    /// The value of a label or annotation under the host's prefix.
    pub fn get(&self, name: &str) -> Option<&str> {
        let name = name.strip_prefix(names::ANNOTATION_PREFIX)?;
        self.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// The labels and annotations under the host's prefix: names without the prefix, and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut parts = self.0.split_terminator('\0');
        std::iter::from_fn(move || Some((parts.next()?, parts.next()?)))
    }

    /// Returns true if the label or annotation is set to `"true"`.
    pub fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }
}

/// How an index finds a parent's children.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OwnerKey {
    /// By the UID in the parent label.
    Uid(Uid),
    /// By the annotation `windlass.dev/retained-for`: plugin, kind, namespace and name of the parent, without its UID.
    Retained(Arc<str>),
}

impl OwnerKey {
    /// Returns true if this is the key of a retained child.
    pub fn is_retained(&self) -> bool {
        matches!(self, Self::Retained(_))
    }
}

/// Why bytes are not a Kubernetes object.
#[derive(Debug, thiserror::Error)]
pub enum NotAnObject {
    /// The text is not JSON, or a field has the wrong type.
    #[error("not a Kubernetes object: {0}")]
    Json(#[from] serde_json::Error),
    /// A field that every stored object has is missing or malformed.
    #[error("not a stored Kubernetes object: metadata.{0} is missing or malformed")]
    Missing(&'static str),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header<'a> {
    #[serde(borrow, default)]
    api_version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
    generation: Option<i64>,
    deletion_timestamp: Option<IgnoredAny>,
    #[serde(borrow, default)]
    finalizers: Option<Vec<Text<'a>>>,
    #[serde(borrow, default)]
    labels: Option<OwnMarks<'a>>,
    #[serde(borrow, default)]
    annotations: Option<OwnMarks<'a>>,
    #[serde(borrow, default)]
    owner_references: Option<Vec<OwnerReference<'a>>>,
    #[serde(borrow, default)]
    managed_fields: Option<&'a RawValue>,
}

/// A part of the metadata alone, whatever else the object has.
#[derive(Deserialize)]
struct Within<M> {
    metadata: M,
}

#[derive(Deserialize)]
struct Labelled<'a> {
    #[serde(borrow, default)]
    labels: Option<OwnMarks<'a>>,
}

#[derive(Deserialize)]
struct Annotated<'a> {
    #[serde(borrow, default)]
    annotations: Option<OwnMarks<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference<'a> {
    #[serde(borrow, default)]
    uid: Cow<'a, str>,
    controller: Option<bool>,
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
}

/// A text that is borrowed from the JSON, unless it has escapes.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Entries of a string map under the host's prefix, a hash of all other entries, and these other entries with their values as JSON.
struct OwnMarks<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>, u64, Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> OwnMarks<'a> {
    /// All entries, as labels.
    fn labels(&self) -> Result<Labels<'a>, serde_json::Error> {
        let others = self.2.iter().map(|(key, value)| {
            let Text(value) = serde_json::from_str(value.get())?;
            Ok((key.clone(), value))
        });
        Ok(Labels::sorted(self.0.iter().cloned().map(Ok).chain(others).collect::<Result<_, serde_json::Error>>()?))
    }
}

impl<'a> Labels<'a> {
    /// Parses the labels in an object's JSON; empty if the object has none, or if the JSON is invalid.
    pub fn of(json: &'a [u8]) -> Self {
        let labels =
            serde_json::from_slice::<Within<Labelled<'a>>>(json).ok().and_then(|object| object.metadata.labels);
        labels.and_then(|labels| labels.labels().ok()).unwrap_or_default()
    }

    /// Parses the annotations in an object's JSON likewise.
    pub fn of_annotations(json: &'a [u8]) -> Self {
        let all =
            serde_json::from_slice::<Within<Annotated<'a>>>(json).ok().and_then(|object| object.metadata.annotations);
        all.and_then(|all| all.labels().ok()).unwrap_or_default()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for OwnMarks<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = OwnMarks<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let (mut marks, mut others, mut hash) = (Vec::new(), Vec::new(), DefaultHasher::new());
                while let Some(Text(key)) = map.next_key()? {
                    if key.starts_with(names::ANNOTATION_PREFIX) {
                        let Text(value) = map.next_value()?;
                        marks.push((key, value));
                    } else {
                        let value: &RawValue = map.next_value()?;
                        (&key, value.get()).hash(&mut hash);
                        others.push((key, value));
                    }
                }
                // As if the map were missing.
                let hash = if others.is_empty() { 0 } else { hash.finish() };
                Ok(OwnMarks(marks, hash, others))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

impl Object {
    /// Memory that the object takes in an `Arc`, in bytes, without what it shares with other objects of a cache: the kind, the
    /// namespace, the labels and the fields that the host owns.
    pub fn size(&self) -> usize {
        let finalizers = self.finalizers.iter().map(|text| size_of::<Box<str>>() + memory::allocated(text.len()));
        memory::shared(size_of::<Self>())
            + memory::shared(self.key.name.len())
            + memory::allocated(self.marks.0.len())
            + finalizers.sum::<usize>()
            + self.json.size()
    }

    /// Parses an object of a known kind from the API server's JSON.
    ///
    /// # Errors
    /// If the text is not a stored Kubernetes object: name, UID or resourceVersion is missing or malformed.
    pub fn from_api(kind: &Arc<Gvk>, text: &str) -> Result<Self, NotAnObject> {
        let header: Header<'_> = serde_json::from_str(text)?;
        let meta = &header.metadata;
        if meta.name.is_empty() {
            return Err(NotAnObject::Missing("name"));
        }
        if meta.uid.is_empty() {
            return Err(NotAnObject::Missing("uid"));
        }
        let resource_version = meta.resource_version.parse().map_err(|_| NotAnObject::Missing("resourceVersion"))?;
        let controller = meta.owner_references.iter().flatten().find(|reference| reference.controller == Some(true));
        let controller = controller.map(|reference| &*reference.uid);
        let managed = meta.managed_fields.map(|raw| ManagedFields::read(raw.get(), controller)).unwrap_or_default();
        let labels = || meta.labels.iter().flat_map(|marks| &marks.0);
        let annotations = || meta.annotations.iter().flat_map(|marks| &marks.0);
        let is_label = |key: &str| [names::LABEL_PLUGIN, names::LABEL_PARENT_UID].contains(&key);
        let labelled = labels().find(|(key, _)| key == names::LABEL_PARENT_UID);
        // A label with the name of an annotation, or the reverse, has no meaning: users may be permitted to set labels,
        // but not annotations, or the reverse.
        let plugin = labels().filter(|(key, _)| key == names::LABEL_PLUGIN);
        let marks = plugin.chain(annotations().filter(|(key, _)| !is_label(key)));
        let strange = labels().filter(|(key, _)| !is_label(key)).chain(annotations().filter(|(key, _)| is_label(key)));
        let kept = meta.labels.as_ref().map_or_else(|| Ok(Labels::default()), OwnMarks::labels);
        let json = trim(text, kind, &header);
        Ok(Self {
            kind: kind.clone(),
            key: ObjectKey::new(meta.namespace.as_deref(), &meta.name),
            uid: Uid::from(&*meta.uid),
            resource_version,
            generation: meta.generation,
            deleting: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.iter().flatten().map(|name| Box::from(&*name.0)).collect(),
            controller: controller.map(Uid::from),
            others_marks: {
                let hash = |marks: &Option<OwnMarks<'_>>| marks.as_ref().map_or(0, |marks| marks.1);
                let mut of_strange = DefaultHasher::new();
                strange.for_each(|mark| mark.hash(&mut of_strange));
                // Labels and annotations are hashed differently, so that moving an entry between them changes the
                // result.
                hash(&meta.labels).rotate_left(1) ^ hash(&meta.annotations) ^ of_strange.finish().rotate_left(2)
            },
            labelled: labelled.map(|(_, uid)| Uid::from(&**uid)),
            checked: Checked::default(),
            marks: Marks::collect(marks.map(|(key, value)| (&**key, &**value))),
            labels: kept.ok().and_then(|labels| labels.kept()),
            managed: Arc::new(managed),
            content: Digest::of(&json),
            json: json.into(),
        })
    }

    /// The object with its metadata alone, for readers to whom nothing else matters: also without `resourceVersion` and `generation`, which
    /// change with the rest.
    ///
    /// # Errors
    /// If its JSON is not valid.
    pub fn metadata_alone(&self) -> Result<Self, NotAnObject> {
        #[derive(Deserialize, Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Alone<'a> {
            #[serde(skip_deserializing)]
            api_version: Cow<'a, str>,
            #[serde(skip_deserializing)]
            kind: &'a str,
            #[serde(borrow)]
            metadata: BTreeMap<Cow<'a, str>, &'a RawValue>,
        }
        let whole = self.json.bytes();
        let mut alone: Alone<'_> = serde_json::from_slice(&whole)?;
        (alone.api_version, alone.kind) = (self.kind.api_version().into(), &self.kind.kind);
        alone.metadata.retain(|field, _| !["resourceVersion", "generation", "managedFields"].contains(&&**field));
        let json = serde_json::to_vec(&alone)?;
        Ok(Self {
            managed: Arc::default(),
            content: Digest::of(&json),
            json: Arc::<[u8]>::from(json).into(),
            ..self.clone()
        })
    }

    /// Calls `act` with the object's labels. Unpacks the object only if the labels are not kept beside it.
    pub fn with_labels<T>(&self, act: impl FnOnce(&Labels<'_>) -> T) -> T {
        match &self.labels {
            Some(kept) => act(&kept.labels()),
            None => act(&Labels::of(&self.json.bytes())),
        }
    }

    /// Gives access to the object's annotations, as if they were labels. Parses the object's JSON, at each call.
    pub fn with_annotations<T>(&self, act: impl FnOnce(&Labels<'_>) -> T) -> T {
        act(&Labels::of_annotations(&self.json.bytes()))
    }

    /// Parses the object's JSON, at each call. Returns `None` if it is not a JSON object.
    pub fn values(&self) -> Option<Map> {
        match json::parse(&self.json.bytes(), json::OBJECT_DEPTH) {
            Ok(Value::Object(values)) => Some(values),
            _ => None,
        }
    }

    /// The key under which an index finds this object. The key is only a hint, because users copy labels: an object is
    /// [owned](Self::is_owned_by) only if label and ownerReference agree.
    pub fn owner_key(&self) -> Option<OwnerKey> {
        match self.marks.get(names::ANNOTATION_RETAINED_FOR) {
            // Retained children have no controller.
            Some(parent) if self.controller.is_none() => Some(OwnerKey::Retained(parent.into())),
            Some(_) | None => self.labelled.clone().map(OwnerKey::Uid),
        }
    }

    /// Returns true if the parent owns this object, so that the host may change and prune it: the object has both the
    /// label and the ownerReference (rule R4).
    pub fn is_owned_by(&self, parent: &Uid) -> bool {
        self.controller.as_ref() == Some(parent) && self.labelled.as_ref() == Some(parent)
    }

    /// The stage in which the object was applied as a child (rule R23); 0 if it says none.
    pub fn stage(&self) -> u32 {
        self.marks.get(names::ANNOTATION_STAGE).and_then(|stage| stage.parse().ok()).unwrap_or_default()
    }

    /// The plugin, from the plugin label.
    pub fn plugin(&self) -> Option<&str> {
        self.marks.get(names::LABEL_PLUGIN)
    }

    /// Kind and name in the controller ownerReference. They are rarely needed, so they are parsed on each call.
    pub fn controller_kind_and_name(&self) -> Option<(GroupKind, String)> {
        let bytes = self.json.bytes();
        let header: Header<'_> = serde_json::from_slice(&bytes).ok()?;
        let references = header.metadata.owner_references?;
        let controller = references.iter().find(|reference| reference.controller == Some(true))?;
        let kind = Gvk::from_api_version(&controller.api_version, &controller.kind);
        Some((kind.group_kind(), controller.name.to_string()))
    }

    /// Parses a top-level field of the object, at each call.
    pub fn field(&self, name: &str) -> Option<Value> {
        let bytes = self.json.bytes();
        let fields: BTreeMap<Text<'_>, &RawValue> = serde_json::from_slice(&bytes).ok()?;
        json::parse(fields.get(&Text(name.into()))?.get().as_bytes(), json::OBJECT_DEPTH).ok()
    }
}

/// Removes `managedFields` from the text, and inserts missing `apiVersion` and `kind` at its start.
fn trim(text: &str, kind: &Gvk, header: &Header<'_>) -> Arc<[u8]> {
    let text = text.trim();
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    if header.api_version.is_none() || header.kind.is_none() {
        // Kubernetes names contain no character that JSON would escape.
        out.extend([r#"{"apiVersion":""#, &kind.api_version(), r#"","kind":""#, &kind.kind, r#"","#]);
        rest = text.get(1..).unwrap_or_default();
    }
    if let Some((before, after)) = header.metadata.managed_fields.and_then(|raw| around(rest, raw.get())) {
        out.push_str(before);
        out.push_str(after);
    } else {
        out.push_str(rest);
    }
    out.into_bytes().into()
}

/// Returns the text before and after the entry whose value is `value`, a slice of `text`; excludes the key and one
/// comma.
fn around<'a>(text: &'a str, value: &str) -> Option<(&'a str, &'a str)> {
    let start = (value.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let before = text.get(..start)?.trim_end().strip_suffix(':')?.trim_end();
    let before = before.strip_suffix("\"managedFields\"")?.trim_end();
    let after = text.get(start.checked_add(value.len())?..)?.trim_start();
    match before.strip_suffix(',') {
        // The entry is not the first in its object: the preceding comma is removed too.
        Some(before) => Some((before, after)),
        None => Some((before, after.strip_prefix(',').unwrap_or(after))),
    }
}

/// Caches whether the HMAC in an object's mark is valid.
#[derive(Debug, Default)]
pub struct Checked(AtomicU8);

impl Checked {
    const HOLDS: u8 = 1;
    const DOES_NOT: u8 = 2;

    pub(crate) fn or_check(&self, check: impl FnOnce() -> bool) -> bool {
        match self.0.load(Ordering::Relaxed) {
            Self::HOLDS => true,
            Self::DOES_NOT => false,
            _ => {
                let holds = check();
                self.0.store(if holds { Self::HOLDS } else { Self::DOES_NOT }, Ordering::Relaxed);
                holds
            }
        }
    }
}

/// A clone may be modified before use, so its mark is checked again.
impl Clone for Checked {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests;
