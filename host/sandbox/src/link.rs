//! Links a component's imports: the contract's `host` and `schedule`, the part of WASI that the contract offers, and a trap for each
//! unsupported import.

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker, LinkerInstance, ResourceType};
use wasmtime::{Engine, format_err};
use windlass_core::contract::Surface;
use windlass_core::value::digest::Digest;

use crate::bindings::{self, Pre, Version};
use crate::call::State;
use crate::failure::UnsupportedImport;
use crate::wasi;

/// Limit for the names of a component's imports and exports, in bytes: some ten times those of the largest runtimes.
/// The names stay in memory while the component is live, and are shown to users.
const NAMES: usize = 256 << 10;

/// Added to the length of each name, so that empty names count as well.
const NAME_OVERHEAD: usize = 32;

/// Placeholder type for resources of unsupported interfaces; no value of it exists.
struct Unsupported;

/// Creates a linker with all supported imports.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    bindings::add_to_linker(&mut linker)?;
    wasi::add_to_linker(&mut linker)?;
    Ok(linker)
}

/// Links a component. Returns also the names of its unsupported imports: a call of one is a trap.
///
/// # Errors
/// Its imports or exports are not those of a plugin.
pub(crate) fn link(linker: &Linker<State>, component: &Component) -> wasmtime::Result<(Pre, Vec<String>)> {
    let mut linker = linker.clone();
    let unsupported = trap_unsupported(&mut linker, component)?;
    let exports = exports(component);
    let version = version_of(exports.iter().map(String::as_str)).map_err(wasmtime::Error::msg)?;
    Ok((Pre::new(version, linker.instantiate_pre(component)?)?, unsupported))
}

/// Defines a trap for each unsupported import, and returns their names.
fn trap_unsupported(linker: &mut Linker<State>, component: &Component) -> wasmtime::Result<Vec<String>> {
    let engine = linker.engine().clone();
    let mut unsupported = Vec::new();
    let mut left = NAMES;
    let mut count = |length: usize| -> wasmtime::Result<()> {
        let too_long = || format_err!("the names of its imports and exports take more than {NAMES} bytes");
        left = left.checked_sub(length.saturating_add(NAME_OVERHEAD)).ok_or_else(too_long)?;
        Ok(())
    };
    for (name, _) in component.component_type().exports(&engine) {
        count(name.len())?;
    }
    // Resources of supported interfaces, in this component's types: unsupported interfaces may use them.
    let mut shared = Vec::new();
    for (name, import) in component.component_type().imports(&engine) {
        count(name.len())?;
        match import.ty {
            ComponentItem::ComponentInstance(interface) => {
                let supported = supported_interface(name);
                let mut instance = linker.instance(supported.unwrap_or(name))?;
                let mut unsupported_items = Vec::new();
                for (item_name, item) in interface.exports(&engine) {
                    count(name.len() + item_name.len())?;
                    let known = supported.and_then(|_| wasi::resource(item_name));
                    if let (ComponentItem::Resource(theirs), Some(ours)) = (&item.ty, known) {
                        shared.push((*theirs, ours));
                    } else if trap_item(&mut instance, &format!("{name}#{item_name}"), item_name, &item.ty, &shared) {
                        unsupported_items.push(format!("{name}#{item_name}"));
                    }
                }
                if supported.is_some() {
                    unsupported.append(&mut unsupported_items);
                } else {
                    unsupported.push(name.to_owned());
                }
            }
            item => {
                if trap_item(&mut linker.root(), name, name, &item, &shared) {
                    unsupported.push(name.to_owned());
                }
            }
        }
    }
    Ok(unsupported)
}

/// Defines a trap for an item, if the linker lacks the item; returns true in this case. A linker rejects duplicate
/// definitions, so defining an item shows whether it exists.
fn trap_item(
    instance: &mut LinkerInstance<'_, State>,
    full_name: &str,
    name: &str,
    item: &ComponentItem,
    shared: &[(ResourceType, ResourceType)],
) -> bool {
    match item {
        ComponentItem::ComponentFunc(_) => {
            let full_name = full_name.to_owned();
            instance.func_new(name, move |_, _, _, _| Err(UnsupportedImport(full_name.clone()).into())).is_ok()
        }
        ComponentItem::Resource(theirs) => {
            let same = shared.iter().find(|(known, _)| known == theirs);
            let ours = same.map_or_else(ResourceType::host::<Unsupported>, |(_, ours)| *ours);
            instance.resource(name, ours, |_, _| Ok(())).is_ok()
        }
        // Types need no definition. Modules and components cannot be defined here; linking reports them.
        _ => false,
    }
}

/// The supported interface that matches an import: the same interface in a compatible version.
fn supported_interface(import: &str) -> Option<&'static str> {
    let version = compatible_version(import)?;
    supported().find(|name| compatible_version(name) == Some(version))
}

/// The interfaces that the linker has.
fn supported() -> impl Iterator<Item = &'static str> {
    bindings::SUPPORTED.into_iter().chain([wasi::SUPPORTED]).flatten().copied()
}

/// The interface, and the part of its version that compatible versions share: `0.2` of `0.2.6`, `1` of `1.4.0`.
fn compatible_version(name: &str) -> Option<(&str, &str)> {
    let (interface, version) = name.split_once('@')?;
    if version.contains('-') {
        // Pre-release versions are compatible with nothing.
        return Some((interface, version));
    }
    let major = version.split('.').next()?;
    if major != "0" {
        return Some((interface, major));
    }
    version.rsplit_once('.').map(|(compatible, _)| (interface, compatible))
}

/// The interface of a component.
pub(crate) fn surface(component: &Component, digest: Digest, size: u64, unsupported_imports: Vec<String>) -> Surface {
    let exports = exports(component);
    let contract = reconcilers(exports.iter().map(String::as_str)).find(|(_, known)| known.is_some());
    Surface {
        digest,
        contract: contract.map(|(version, _)| version).unwrap_or_default().into(),
        imports: component.component_type().imports(component.engine()).map(|(name, _)| name.to_owned()).collect(),
        exports,
        unsupported_imports,
        size,
    }
}

fn exports(component: &Component) -> Vec<String> {
    component.component_type().exports(component.engine()).map(|(name, _)| name.to_owned()).collect()
}

/// The version of the contract as which a component with these exports is called.
///
/// # Errors
/// If it exports none that this host runs: the message for the plugin author.
pub(crate) fn version_of<'a>(exports: impl Iterator<Item = &'a str> + Clone) -> Result<Version, String> {
    if let Some(newest) = reconcilers(exports.clone()).find_map(|(_, known)| known) {
        return Ok(newest);
    }
    let known =
        Version::ALL.map(|version| compatible_version(version.reconciler()).unwrap_or_default().1).join(" and ");
    let candidate = reconcilers(exports.clone()).find(|(version, _)| version.contains('-'));
    if let Some((candidate, _)) = candidate {
        return Err(format!(
            "the component is built for contract {candidate}, a candidate that this host does not run: it runs {known}; build the \
             component again with the SDK of the host's release"
        ));
    }
    let found = exports.collect::<Vec<_>>().join(", ");
    let found = if found.is_empty() { "no exports" } else { &found };
    Err(format!("no export {RECONCILER} of contract {known}; found {found}"))
}

/// The interface that makes a component a plugin.
const RECONCILER: &str = "windlass:plugin/reconciler";

/// The versions of the reconcilers among these exports, the newest of those first that this host runs; none for one that it does not.
fn reconcilers<'a>(exports: impl Iterator<Item = &'a str>) -> impl Iterator<Item = (&'a str, Option<Version>)> {
    let version = |name: &'a str| name.strip_prefix(RECONCILER)?.strip_prefix('@');
    let runs = |name| Version::ALL.into_iter().find(|known| is_compatible(name, known.reconciler()));
    let mut found: Vec<_> = exports.filter_map(|name| Some((version(name)?, runs(name)))).collect();
    found.sort_by_key(|(_, known)| {
        Version::ALL.iter().position(|version| Some(*version) == *known).unwrap_or(usize::MAX)
    });
    found.into_iter()
}

fn is_compatible(name: &str, supported: &str) -> bool {
    compatible_version(name).is_some_and(|version| compatible_version(supported) == Some(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The version of a component with these exports.
    fn version(exports: &[&str]) -> Result<Version, String> {
        version_of(exports.iter().copied())
    }

    #[test]
    fn patch_release_is_the_same_contract_and_minor_release_is_another() {
        assert_eq!(version(&["wasi:cli/run@0.2.0", "windlass:plugin/reconciler@0.1.7"]), Ok(Version::V0_1));
        let message = version(&["windlass:plugin/reconciler@0.3.0", "other"]).unwrap_err();
        assert_eq!(
            message,
            "no export windlass:plugin/reconciler of contract 0.2.0-rc.1 and 0.1; found windlass:plugin/reconciler@0.3.0, other"
        );
        assert!(version(&[]).unwrap_err().ends_with("found no exports"));
        assert!(version(&["windlass:plugin/reconciler", "reconciler"]).is_err());
        assert_eq!(supported_interface("wasi:io/poll@0.2.0"), Some("wasi:io/poll@0.2.12"));
        assert_eq!(supported_interface("wasi:io/poll@0.3.0"), None);
        assert_eq!(compatible_version("a:b/c@1.4.0"), Some(("a:b/c", "1")));
    }

    #[test]
    fn component_of_several_contracts_is_called_by_the_newest_that_this_host_runs() {
        let [old, new, later] = ["0.1.0", "0.2.0-rc.1", "0.9.0"].map(|one| format!("windlass:plugin/reconciler@{one}"));
        for exports in [[&*old, &*new, &*later], [&*later, &*new, &*old]] {
            assert_eq!(version(&exports), Ok(Version::V0_2));
        }
        assert_eq!(version(&[&later, &old]), Ok(Version::V0_1));
    }

    #[test]
    fn component_of_another_candidate_is_refused_with_what_to_do() {
        for candidate in ["0.2.0-rc.2", "0.1.0-rc1"] {
            let message = version(&[&format!("windlass:plugin/reconciler@{candidate}")]).unwrap_err();
            assert!(message.contains(candidate) && message.contains("build the component again"), "{message}");
        }
    }

    #[test]
    fn every_supported_interface_is_defined_in_the_linker() {
        let engine = crate::engine::for_compiling().unwrap();
        let mut linker = linker(&engine).unwrap();
        for name in supported() {
            // Defining a name fails exactly if it is already defined.
            assert!(linker.root().func_new(name, |_, _, _, _| Ok(())).is_err(), "{name}");
        }
    }
}
