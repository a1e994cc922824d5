//! COMPONENT arguments: a file, or `configmap/NAMESPACE/NAME`.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use windlass_sandbox::{Component, Options, Sandbox};

use super::connect::ClusterArgs;
use crate::api::ConfigMapSource;
use crate::delivery;

/// Where a component is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ComponentRef {
    /// A file.
    File(PathBuf),
    /// A ConfigMap, or the head of a chunked set.
    ConfigMap(ConfigMapSource),
}

impl FromStr for ComponentRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("oci://") {
            return Err("OCI references are not served yet; pull the component to a file first".to_owned());
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

/// A component, and how to read it.
#[derive(Debug, clap::Args)]
pub struct ComponentArgs {
    /// The component: a file, or configmap/NAMESPACE/NAME
    #[arg(value_name = "COMPONENT")]
    pub component: ComponentRef,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Folder of compiled components
    #[arg(long, env = "WINDLASS_CACHE_DIR")]
    pub cache_dir: Option<PathBuf>,
}

impl ComponentArgs {
    /// The component's bytes.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn bytes(&self) -> anyhow::Result<Vec<u8>> {
        match &self.component {
            ComponentRef::File(file) => std::fs::read(file).with_context(|| format!("component {}", file.display())),
            ComponentRef::ConfigMap(source) => super::block_on(async {
                let client = self.cluster.client().await?;
                Ok(delivery::fetch(&client, source, None).await?.bytes)
            }),
        }
    }

    /// The component, compiled and described.
    ///
    /// # Errors
    /// If it is none, or cannot be compiled.
    pub fn load(&self) -> anyhow::Result<Arc<Component>> {
        let bytes = self.bytes()?;
        let cache_dir = self.cache_dir.clone().map_or_else(super::default_cache_dir, Ok)?;
        let sandbox = Sandbox::new(Options::new(cache_dir))?;
        match sandbox.load(&bytes) {
            Ok(component) => Ok(component),
            Err(failure) => bail!("component {}: {failure}", self.name()),
        }
    }

    fn name(&self) -> String {
        match &self.component {
            ComponentRef::File(file) => file.display().to_string(),
            ComponentRef::ConfigMap(source) => format!("configmap/{}/{}", source.namespace, source.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_a_file_or_a_config_map() {
        assert_eq!("a/b.wasm".parse(), Ok(ComponentRef::File("a/b.wasm".into())));
        let source = ConfigMapSource { namespace: "ns".to_owned(), name: "echo".to_owned() };
        assert_eq!("configmap/ns/echo".parse(), Ok(ComponentRef::ConfigMap(source)));
        for bad in ["configmap/echo", "configmap/a/b/c", "configmap//x"] {
            assert_eq!(bad.parse::<ComponentRef>(), Err("write it as configmap/NAMESPACE/NAME".to_owned()));
        }
        assert!("oci://r/e:1".parse::<ComponentRef>().is_err());
    }
}
