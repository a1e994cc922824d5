//! Reads and applies objects in the tests' own process: starting kubectl takes a hundred times as much CPU, and tests poll
//! often.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kube::api::{DynamicObject, GetParams, ListParams, Patch, PatchParams, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiGroup, ApiResource, Discovery, Scope};
use kube::{Client, Config, Error, Resource as _};
use serde_json::Value;
use tokio::runtime::Runtime;

/// How long a resource may take to be served: its CRD may have been written just now.
const SERVED_WITHIN: Duration = Duration::from_secs(10);

/// A client of one API server.
pub struct Api {
    runtime: Runtime,
    client: Client,
    served: Mutex<Vec<Served>>,
}

/// A resource that the API server serves.
#[derive(Clone)]
struct Served {
    resource: ApiResource,
    is_namespaced: bool,
}

impl Served {
    /// Whether this is its name: `echoes`, `echoes.my-operator.dev`.
    fn is_named(&self, name: &str) -> bool {
        let (plural, group) = name.split_once('.').unwrap_or((name, ""));
        self.resource.plural == plural && (group.is_empty() || self.resource.group == group)
    }

    fn request(&self, namespace: Option<&str>) -> Request {
        let namespace = namespace.filter(|_| self.is_namespaced);
        Request::new(DynamicObject::url_path(&self.resource, namespace))
    }
}

impl Api {
    /// A client with the credentials in a kubeconfig file.
    pub fn connect(kubeconfig: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime for a client of the API server");
        let config = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig file");
        let config = runtime.block_on(Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()));
        let client = {
            // The client starts a task.
            let _context = runtime.enter();
            Client::try_from(config.expect("a readable kubeconfig file")).expect("a client of the API server")
        };
        Self { runtime, client, served: Mutex::default() }
    }

    /// An object, or `None` if it does not exist. Without a namespace, a namespaced object is read in `default`.
    ///
    /// # Errors
    /// When the API server does not serve such a resource, or rejects the request.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Result<Option<Value>> {
        let namespace = if namespace.is_empty() { "default" } else { namespace };
        self.ask(
            resource,
            |served| served.is_named(resource),
            |served| {
                let request = served.request(Some(namespace)).get(name, &GetParams::default())?;
                match self.runtime.block_on(self.client.request::<Value>(request)) {
                    Ok(object) => Ok(Some(Some(object))),
                    Err(Error::Api(status)) if status.code == 404 => {
                        let is_of_object = status.details.is_some_and(|details| details.name == name);
                        Ok(is_of_object.then_some(None))
                    }
                    Err(error) => Err(error.into()),
                }
            },
        )
    }

    /// All objects of some resources (separated by commas) in a namespace, or in all where it is empty.
    ///
    /// # Errors
    /// When the API server does not serve such a resource, or rejects the request.
    pub fn list(&self, resources: &str, namespace: &str) -> Result<Vec<Value>> {
        let mut objects = Vec::new();
        for resource in resources.split(',') {
            objects.extend(self.list_one(resource, namespace)?);
        }
        Ok(objects)
    }

    fn list_one(&self, resource: &str, namespace: &str) -> Result<Vec<Value>> {
        self.ask(
            resource,
            |served| served.is_named(resource),
            |served| {
                let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
                let request = served.request(namespace).list(&ListParams::default())?;
                let mut list: Value = match self.runtime.block_on(self.client.request(request)) {
                    Ok(list) => list,
                    Err(Error::Api(status)) if status.code == 404 => return Ok(None),
                    Err(error) => return Err(error.into()),
                };
                let Value::Array(mut items) = list["items"].take() else {
                    bail!("the API server responded with {list} instead of a list");
                };
                // Items of a list of a built-in kind have no kind.
                for item in &mut items {
                    item["apiVersion"] = served.resource.api_version.clone().into();
                    item["kind"] = served.resource.kind.clone().into();
                }
                Ok(Some(items))
            },
        )
    }

    /// Applies manifests (YAML or JSON) server-side, as `kubectl apply --server-side` does: strictly, and into `default`
    /// where a manifest names no namespace.
    ///
    /// # Errors
    /// When a manifest cannot be read, or the API server rejects it; those before it are applied then.
    pub fn apply(&self, parameters: &PatchParams, manifests: &str) -> Result<()> {
        let parameters = parameters.clone().validation_strict();
        for manifest in documents(manifests)? {
            let text = |pointer| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let (api_version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            let namespace = Some(text("/metadata/namespace")).filter(|namespace| !namespace.is_empty());
            let is_wanted = |served: &Served| served.resource.group == group && served.resource.kind == kind;
            self.ask(&format!("{api_version} {kind}"), is_wanted, |served| {
                // The version of the manifest, which need not be the one that reads prefer.
                let kind = GroupVersionKind::gvk(group, version, kind);
                let resource = ApiResource::from_gvk_with_plural(&kind, &served.resource.plural);
                let served = Served { resource, ..served.clone() };
                let request = served.request(Some(namespace.unwrap_or("default")));
                let request = request.patch(name, &parameters, &Patch::Apply(&manifest))?;
                match self.runtime.block_on(self.client.request::<Value>(request)) {
                    Ok(_) => Ok(Some(())),
                    Err(error) => Err(error).with_context(|| format!("cannot apply {kind:?} {name}")),
                }
            })?;
        }
        Ok(())
    }

    /// Patches the object of this resource, namespace and name.
    ///
    /// # Errors
    /// When the API server does not serve such a resource, or rejects the patch.
    pub fn patch(
        &self,
        parameters: &PatchParams,
        (resource, namespace, name): (&str, &str, &str),
        patch: &Patch<Value>,
    ) -> Result<()> {
        self.ask(
            resource,
            |served| served.is_named(resource),
            |served| {
                let request = served.request(Some(namespace)).patch(name, parameters, patch)?;
                self.runtime.block_on(self.client.request::<Value>(request))?;
                Ok(Some(()))
            },
        )
    }

    /// Sends a request for the first resource that satisfies `is_wanted`. `request` returns `None` if the resource is not
    /// served: the known resources may include one whose CRD was deleted.
    fn ask<T>(
        &self,
        resource: &str,
        is_wanted: impl Fn(&Served) -> bool,
        request: impl Fn(&Served) -> Result<Option<T>>,
    ) -> Result<T> {
        let ask = || {
            let answer = self.known(&is_wanted).map(|served| request(&served)).transpose();
            answer.map(Option::flatten).with_context(|| format!("a request for {resource}"))
        };
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        windlass_testbed::until(format!("the resource {resource} to be served"), SERVED_WITHIN, || {
            self.discover()?;
            ask()
        })
    }

    fn known(&self, is_wanted: impl Fn(&Served) -> bool) -> Option<Served> {
        let served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        served.iter().find(|served| is_wanted(served)).cloned()
    }

    fn discover(&self) -> Result<()> {
        let found = self.runtime.block_on(Discovery::new(self.client.clone()).run_aggregated())?;
        let resources = found.groups_alphabetical().into_iter().flat_map(ApiGroup::recommended_resources);
        let served = resources.map(|(resource, capabilities)| Served {
            resource,
            is_namespaced: capabilities.scope == Scope::Namespaced,
        });
        *self.served.lock().unwrap_or_else(PoisonError::into_inner) = served.collect();
        Ok(())
    }
}

/// The manifests in a text. JSON is YAML, too, but is much faster to read as JSON.
fn documents(manifests: &str) -> Result<Vec<Value>> {
    let documents = match serde_json::from_str(manifests) {
        Ok(document) => vec![document],
        Err(_) => serde_saphyr::from_multiple(manifests).context("manifests that are not valid YAML")?,
    };
    let items = |document: Value| match &document["kind"] {
        Value::String(kind) if kind == "List" => document["items"].as_array().cloned().unwrap_or_default(),
        _ => vec![document],
    };
    Ok(documents.into_iter().filter(|document: &Value| !document.is_null()).flat_map(items).collect())
}
