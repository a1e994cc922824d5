//! COMPONENT arguments (a file, `oci://REFERENCE`, or `configmap/NAMESPACE/NAME`), and a component that is to run as a Plugin.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context as _;
use windlass_api::ConfigMapSource;
use windlass_core::contract::declared_parent::DeclaredParent;
use windlass_core::value::ids::PluginName;
use windlass_delivery as delivery;
use windlass_delivery::oci::{Credentials, Http, Reference, of_docker_config};
use windlass_engine::command::cluster::ClusterArgs;
use windlass_engine::command::components::{CompileArgs, RegistryArgs, default_cache_dir};
use windlass_sandbox::{Component, Options, Sandbox};

/// Location of a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ComponentRef {
    /// A file.
    File(PathBuf),
    /// A ConfigMap, or the head of a component in parts.
    ConfigMap(ConfigMapSource),
    /// An artifact in a registry.
    Oci(Reference),
}

impl FromStr for ComponentRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(reference) = text.strip_prefix("oci://") {
            return reference.parse().map(Self::Oci);
        }
        let Some(rest) = text.strip_prefix("configmap/") else { return Ok(Self::File(text.into())) };
        match rest.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self::ConfigMap(ConfigMapSource { namespace: namespace.to_owned(), name: name.to_owned() }))
            }
            _ => Err("write it as configmap/NAMESPACE/NAME".to_owned()),
        }
    }
}

/// How components are read and compiled.
#[derive(Debug, clap::Args)]
pub struct LoadArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub registries: RegistryArgs,
    #[command(flatten)]
    pub cache: CacheArgs,
}

/// Where compiled components are kept, and what compiling may use.
#[derive(Debug, Clone, clap::Args)]
pub struct CacheArgs {
    /// Folder of compiled components; default: `$XDG_CACHE_HOME/windlass/components`, or `~/.cache/windlass/components`
    #[arg(long, env = "WINDLASS_CACHE_DIR")]
    cache_dir: Option<PathBuf>,
    #[command(flatten)]
    pub compile: CompileArgs,
}

impl CacheArgs {
    /// Compiles a component, and calls `describe`.
    ///
    /// # Errors
    /// If the bytes are not a component, or cannot be compiled.
    pub fn load(&self, bytes: &[u8]) -> anyhow::Result<Arc<Component>> {
        self.load_into(self.folder()?, bytes)
    }

    /// Compiles a component into this folder instead of the flag's, and calls `describe`.
    ///
    /// # Errors
    /// If the bytes are not a component, or cannot be compiled.
    pub fn load_into(&self, folder: PathBuf, bytes: &[u8]) -> anyhow::Result<Arc<Component>> {
        let options = Options { compile: self.compile.bounds(), counts_attempts: false, ..Options::new(folder) };
        Ok(Sandbox::new(options)?.load(bytes)?)
    }

    /// The folder.
    ///
    /// # Errors
    /// If the flag is not set, and the user has no folder for caches.
    pub fn folder(&self) -> anyhow::Result<PathBuf> {
        self.cache_dir.clone().map_or_else(default_cache_dir, Ok)
    }
}

/// A component, and how to load it.
#[derive(Debug, clap::Args)]
pub struct ComponentArgs {
    /// Component: a file, `oci://REFERENCE`, or `configmap/NAMESPACE/NAME`
    #[arg(value_name = "COMPONENT")]
    pub component: ComponentRef,
    #[command(flatten)]
    pub options: LoadArgs,
}

impl ComponentArgs {
    /// Reads the component's bytes.
    ///
    /// # Errors
    /// If the component cannot be read.
    pub fn bytes(&self) -> anyhow::Result<Vec<u8>> {
        match &self.component {
            ComponentRef::File(file) => super::files::component(file),
            ComponentRef::ConfigMap(source) => super::block_on(async {
                let client = self.options.cluster.client().await?;
                Ok(delivery::fetch(&client, source).await?.unpack()?.bytes)
            }),
            ComponentRef::Oci(reference) => super::block_on(async {
                let credentials = credentials_of_user(reference)?;
                let plain_http = &self.options.registries.plain_http;
                Ok(delivery::fetch_once(&Http::default(), reference, credentials, plain_http).await?.bytes)
            }),
        }
    }

    /// Reads and compiles the component, and calls `describe`.
    ///
    /// # Errors
    /// If the bytes cannot be read, are not a component, or cannot be compiled.
    pub fn load(&self) -> anyhow::Result<Arc<Component>> {
        self.load_of(&self.bytes()?)
    }

    /// Compiles the component of these bytes, for callers that need both: a second read might return another component.
    ///
    /// # Errors
    /// If the bytes are not a component, or cannot be compiled.
    pub fn load_of(&self, bytes: &[u8]) -> anyhow::Result<Arc<Component>> {
        self.options.cache.load(bytes).with_context(|| format!("component {}", self.name()))
    }

    fn name(&self) -> String {
        match &self.component {
            ComponentRef::File(file) => file.display().to_string(),
            ComponentRef::ConfigMap(source) => format!("configmap/{}/{}", source.namespace, source.name),
            ComponentRef::Oci(reference) => format!("oci://{reference}"),
        }
    }
}

/// A component that is to run as a Plugin.
pub struct Candidate {
    /// The component's bytes.
    pub bytes: Vec<u8>,
    /// The loaded component.
    pub component: Arc<Component>,
    /// Its parent kind.
    pub declared: DeclaredParent,
    /// Name of the Plugin.
    pub name: PluginName,
}

impl Candidate {
    /// A component with these bytes. Without a name, the Plugin has the component's.
    ///
    /// # Errors
    /// If the descriptor names no valid parent kind, or the name is not one of a Plugin.
    pub fn new(bytes: Vec<u8>, component: Arc<Component>, name: Option<&str>) -> anyhow::Result<Self> {
        let declared = DeclaredParent::of(component.descriptor()).map_err(anyhow::Error::msg)?;
        let name = name.unwrap_or(&component.descriptor().name).parse()?;
        Ok(Self { bytes, component, declared, name })
    }
}

/// The user's credentials for a registry, as `docker login` and similar tools store them in `$DOCKER_CONFIG` or
/// `~/.docker`. None if there are none.
///
/// # Errors
/// If the file exists and cannot be used.
pub fn credentials_of_user(reference: &Reference) -> anyhow::Result<Option<Credentials>> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("DOCKER_CONFIG").or_else(|| Some(set("HOME")?.join(".docker")));
    let Some(file) = folder.map(|folder| folder.join("config.json")) else { return Ok(None) };
    match std::fs::read(&file) {
        Ok(config) => {
            of_docker_config(&config, reference).map_err(|problem| anyhow::anyhow!("{}: {problem}", file.display()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| file.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn component_argument_is_a_file_a_config_map_or_an_artifact() {
        assert_eq!("a/b.wasm".parse(), Ok(ComponentRef::File("a/b.wasm".into())));
        let source = ConfigMapSource { namespace: "ns".to_owned(), name: "echo".to_owned() };
        assert_eq!("configmap/ns/echo".parse(), Ok(ComponentRef::ConfigMap(source)));
        for bad in ["configmap/echo", "configmap/a/b/c", "configmap//x"] {
            assert_eq!(bad.parse::<ComponentRef>(), Err("write it as configmap/NAMESPACE/NAME".to_owned()));
        }
        let reference = "registry.example/e:1".parse().expect("a reference");
        assert_eq!("oci://registry.example/e:1".parse(), Ok(ComponentRef::Oci(reference)));
        assert!("oci://r/e:1".parse::<ComponentRef>().expect_err("no registry").contains("write it as"));
    }
}
