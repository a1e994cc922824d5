//! Dry runs of the host's writes: the API server validates, defaults and admits the object, returns it as it would be
//! stored, and stores nothing.

use http::{HeaderValue, Request, header};
use kube::Client;
use kube::api::PatchParams;
use windlass_core::contract::desired::DesiredChild;
use windlass_core::object::Object;
use windlass_core::object::names::FIELD_MANAGER;
use windlass_core::reconcile::api_response::Refused;
use windlass_core::reconcile::outcome::WriteProblem;
use windlass_core::value::json::{self, Map, Value};

use super::request::{self, To, as_plugin, is_read, with_option};
use super::response::refused;
use super::warnings::Warnings;
use crate::cluster::in_time;

/// A write that is sent as a dry run: by `windlass diff` as the client's own user, or by the host. Its body is that of the host's write.
///
/// Only writes whose options are in the query can be dry runs; those of a delete are in its body.
#[derive(Debug)]
pub struct DryRun(Request<Vec<u8>>);

/// A dry run, or why it could not be built.
pub type Built = Result<DryRun, WriteProblem>;

impl DryRun {
    /// The dry run of a write.
    ///
    /// # Errors
    /// If the write could not be built, or is one that the API server would execute in spite of the option, such as a delete.
    pub fn of(write: request::Built) -> Built {
        let mut request = with_option(write?, "dryRun=All")?;
        if !is_read(&request) {
            let message = format!("{} cannot be sent as a dry run", request.method());
            return Err(WriteProblem::Unavailable { message, retry_after: None });
        }
        // The whole object is read, and not its metadata alone.
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        Ok(Self(request))
    }

    /// The creation of a child under another name.
    fn create_as(to: To<'_>, child: &DesiredChild, name: &str) -> Built {
        let mut renamed = child.clone();
        if let Some(meta) = renamed.body.object_mut("metadata") {
            meta.insert("name", name);
        }
        Self::of(request::create(to, &renamed))
    }

    /// The replacement of an existing object by this one, of the same version. It is sent as a JSON patch: the
    /// permission to patch is needed for the other dry runs as well, and that to update is not.
    ///
    /// # Errors
    /// If the name does not form a valid URL.
    pub fn replace(to: To<'_>, object: &Object, body: &Map) -> Built {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let whole = [("op", Value::from("replace")), ("path", Value::from("")), ("value", body.clone().into())];
        let patch = Value::Array(vec![Map::from(whole).into()]).to_string();
        Self::of(request::json_patch(to.resource, &object.key, &params, patch).map(|patch| as_plugin(to, patch)))
    }

    /// What the API server will warn about, once the response is there.
    pub fn warnings(&mut self) -> Warnings {
        Warnings::of(&mut self.0)
    }

    /// Sends the dry run, and returns the JSON text of the object as it would be stored.
    ///
    /// # Errors
    /// If the API server rejects the write, or does not respond.
    pub async fn send(self, client: &Client) -> Result<String, Refused> {
        in_time(client.request_text(self.0)).await.map_err(|error| refused(&error))
    }
}

/// The object that a create of this child would give, if its name were free: it is created by a dry run under another name, and has its own
/// name in the result, also where a webhook has derived a value from the name.
///
/// # Errors
/// If the API server rejects it or does not respond.
pub async fn fresh(client: &Client, to: To<'_>, child: &DesiredChild) -> Result<Map, Refused> {
    let name = other_name(&child.key.name, fastrand::u32(..));
    let text = DryRun::create_as(to, child, &name).map_err(Refused::Unsent)?.send(client).await?;
    let unreadable = |why: String| {
        let message = format!("the dry run of its creation cannot be read: {why}");
        Refused::Unsent(WriteProblem::Unavailable { message, retry_after: None })
    };
    match json::parse(text.replace(&name, &child.key.name).as_bytes(), json::OBJECT_DEPTH) {
        Ok(Value::Object(fresh)) => Ok(fresh),
        Ok(other) => Err(unreadable(format!("it is {}", other.type_name()))),
        Err(error) => Err(unreadable(error.to_string())),
    }
}

/// A name that is hardly in use, and not longer than the API server's own random names.
fn other_name(name: &str, random: u32) -> String {
    const MAX: usize = 63;
    let suffix = format!("-{random:08x}");
    let start = name.get(..name.floor_char_boundary(MAX - suffix.len())).unwrap_or_default();
    format!("{}{suffix}", start.trim_end_matches(|char: char| !char.is_ascii_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kube::core::{ApiResource, GroupVersionKind};
    use windlass_core::contract::UpdateStrategy;
    use windlass_core::object::child::Delete;
    use windlass_core::reconcile::world::{Force, Part};
    use windlass_core::value::ids::{Gvk, ObjectKey};

    use super::*;

    fn child() -> DesiredChild {
        let meta = Map::from([("name", Value::from("a")), ("namespace", Value::from("n"))]);
        DesiredChild {
            kind: Arc::new(Gvk::from_api_version("v1", "ConfigMap")),
            key: ObjectKey::new(Some("n"), "a"),
            body: Map::from([("kind", Value::from("ConfigMap")), ("metadata", meta.into())]),
            applied: String::new(),
            applied_as_string_data: None,
            update: UpdateStrategy::Apply,
            owner: None,
            force_ownership: false,
            stage: 0,
            ready: None,
            once: None,
            replaces: None,
        }
    }

    fn object() -> Object {
        let text = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7"}}"#;
        Object::from_api(&Arc::new(Gvk::from_api_version("v1", "ConfigMap")), text).expect("an object")
    }

    #[test]
    fn every_dry_run_asks_to_store_nothing_and_is_sent_as_the_user() {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        let (child, object, to) = (child(), object(), To::own(&resource));
        for (built, method) in [
            (DryRun::of(request::create(to, &child)), "POST"),
            (DryRun::create_as(to, &child, "b"), "POST"),
            (DryRun::of(request::apply(to, &child, &object.uid, None, Force::Yes, Part::Whole)), "PATCH"),
            (DryRun::replace(to, &object, &child.body), "PATCH"),
            (DryRun::of(request::status(to, &object, None, Map::default())), "PATCH"),
            (DryRun::of(request::finalizers(&resource, &object, &[])), "PATCH"),
        ] {
            let DryRun(request) = built.expect("a request");
            assert_eq!(request.method(), method);
            assert!(request.uri().query().is_some_and(|query| query.ends_with("dryRun=All")), "{}", request.uri());
            assert_eq!(crate::cluster::account::signer(&request), None);
            assert_eq!(request.headers()[header::ACCEPT], "application/json");
        }
    }

    #[test]
    fn delete_is_never_sent_as_a_dry_run() {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        let delete = request::delete(To::own(&resource), &Delete::of(&object()));
        assert!(delete.is_ok() && DryRun::of(delete).is_err(), "the API server would ignore the option and delete");
    }

    #[test]
    fn dry_run_has_the_body_of_the_hosts_write_and_another_name_only_if_the_name_is_taken() {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        let (child, to) = (child(), To::own(&resource));
        let of_host = request::create(to, &child).expect("a request");
        let DryRun(dry) = DryRun::of(request::create(to, &child)).expect("a request");
        assert_eq!(dry.body(), of_host.body());
        let DryRun(renamed) = DryRun::create_as(to, &child, "a-1").expect("a request");
        let body = String::from_utf8(renamed.into_body()).expect("JSON");
        assert_eq!(body, String::from_utf8_lossy(of_host.body()).replace(r#""a""#, r#""a-1""#));
    }

    #[test]
    fn other_name_is_valid_wherever_the_name_is() {
        assert_eq!(other_name("web", 1), "web-00000001");
        assert_eq!(other_name("app:reader", u32::MAX), "app:reader-ffffffff");
        let long = format!("{}.b", "a".repeat(53));
        assert_eq!(other_name(&long, 1), format!("{}-00000001", "a".repeat(53)));
        assert!(other_name(&"a".repeat(253), 1).len() <= 63);
    }

    #[test]
    fn replacement_is_a_patch_of_the_whole_object() {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
        let DryRun(request) = DryRun::replace(To::own(&resource), &object(), &child().body).expect("a request");
        assert_eq!(request.headers()[header::CONTENT_TYPE], "application/json-patch+json");
        assert!(request.uri().path().ends_with("/namespaces/n/configmaps/a"), "{}", request.uri());
        let body = r#"{"kind":"ConfigMap","metadata":{"name":"a","namespace":"n"}}"#;
        let patch = format!(r#"[{{"op":"replace","path":"","value":{body}}}]"#);
        assert_eq!(String::from_utf8(request.into_body()).expect("JSON"), patch);
    }
}
