//! The type that kube's watcher deserializes objects into: their JSON text, and the one field that the watcher needs.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The JSON of an object as received. Deserialization accepts any valid JSON, so one malformed object never stops a
/// watch.
#[derive(Debug, Clone)]
pub struct Raw {
    /// Contains only the resourceVersion, from which the watcher resumes.
    meta: ObjectMeta,
    /// The JSON text.
    pub text: Box<RawValue>,
}

#[derive(Deserialize, Default)]
struct Versioned<'a> {
    #[serde(borrow, default)]
    metadata: Version<'a>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Version<'a> {
    #[serde(borrow, default)]
    resource_version: Option<Cow<'a, str>>,
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let versioned: Versioned<'_> = serde_json::from_str(text.get()).unwrap_or_default();
        let resource_version = versioned.metadata.resource_version.map(Cow::into_owned);
        Ok(Self { meta: ObjectMeta { resource_version, ..ObjectMeta::default() }, text })
    }
}

impl Resource for Raw {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}
