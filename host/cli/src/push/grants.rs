//! Computes the grants that a push writes to the Plugin: the kinds that `--grant` names, beside those that the Plugin grants
//! already. A list in `spec.grants` replaces the default, so it is always written as a whole.

use anyhow::bail;
use serde_json::json;
use windlass_api::{ChildRef, GrantsSpec, Plugin, RelatedRef};
use windlass_core::contract::Descriptor;
use windlass_core::contract::declared_parent::DeclaredParent;
use windlass_core::contract::grant::SpecGrants;
use windlass_core::value::ids::{Gvk, PluginName};

use super::super::output::list_of_names;
use super::super::pushed::is_pushs;

/// Kinds that a push grants.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct GrantArgs {
    /// Grant a kind that the component declares, beside the kinds that it may use already: as in `Role`, or with version and group
    /// as in `Role.v1.rbac.authorization.k8s.io`; may be repeated. Needed for kinds that can extend permissions or affect the whole
    /// cluster
    #[arg(long, value_name = "KIND")]
    pub grant: Vec<String>,
    /// Grant every kind that the component declares. Review the kinds first with `windlass inspect`
    #[arg(long, conflicts_with = "grant")]
    pub grant_all_declared: bool,
}

/// The kinds that a component declares, and how it uses them.
#[derive(Clone, Copy)]
pub struct Declared<'a> {
    /// The parent kind, if it exists without the component.
    pub parent: Option<&'a Gvk>,
    descriptor: &'a Descriptor,
}

/// The grants of a Plugin after a push.
#[derive(Debug, Default, PartialEq)]
pub struct PushedGrants {
    /// All grants of the Plugin.
    pub whole: GrantsSpec,
    /// The fields that the push writes.
    pub written: GrantsSpec,
}

impl<'a> Declared<'a> {
    /// The kinds of a component. An existing parent kind can be granted; the component's own needs no grant.
    pub fn of(declared: &'a DeclaredParent, descriptor: &'a Descriptor) -> Self {
        Self { parent: declared.crd().is_none().then(|| declared.kind()), descriptor }
    }

    fn children(self) -> impl Iterator<Item = &'a Gvk> {
        self.descriptor.children.iter().map(|rule| &rule.kind)
    }

    /// All kinds that the component declares, except a parent kind whose CRD it carries.
    pub fn all(self) -> impl Iterator<Item = &'a Gvk> {
        self.parent.into_iter().chain(self.children()).chain(&self.descriptor.related)
    }

    /// The shortest text by which `--grant` finds the kind among those of the component.
    pub fn flag(self, kind: &Gvk) -> String {
        let is_ambiguous = self.all().any(|other| other.kind == kind.kind && other != kind);
        if is_ambiguous { kind.to_string() } else { kind.kind.to_string() }
    }

    /// The kind that a flag names.
    fn find(self, flag: &str) -> anyhow::Result<&'a Gvk> {
        let mut found: Vec<_> = self.all().filter(|kind| *kind.kind == *flag || kind.to_string() == flag).collect();
        found.sort();
        found.dedup();
        match &*found {
            [kind] => Ok(kind),
            [] => bail!(
                "--grant {flag}: the component declares no such kind; nothing was written. It declares {}",
                list_of_names(self.all().map(ToString::to_string)).unwrap_or_default()
            ),
            several => {
                let several: Vec<_> = several.iter().map(ToString::to_string).collect();
                bail!("--grant {flag} may mean {}; nothing was written. Name one of them", several.join(" or "))
            }
        }
    }

    /// The grants with these kinds added, in every use that the component declares. A list that must change contains all kinds
    /// that are granted without it.
    pub fn adding(self, grants: &GrantsSpec, kinds: &[&Gvk]) -> GrantsSpec {
        let (mut next, before) = (grants.clone(), grants.spec_grants());
        let is_new = |kind: &&Gvk| kinds.contains(kind);
        if let Some(parent) = self.parent.filter(is_new).filter(|parent| before.parent.as_ref() != Some(parent)) {
            next.parent = Some(parent.into());
        }
        let missing: Vec<_> = self.children().filter(is_new).filter(|kind| before.may_own(kind).is_err()).collect();
        if !missing.is_empty() {
            let by_default = || self.children().filter(|kind| SpecGrants::default().may_own(kind).is_ok());
            let mut list = next.children.take().unwrap_or_else(|| by_default().map(ChildRef::from).collect());
            list.extend(missing.into_iter().map(ChildRef::from));
            next.children = Some(list);
        }
        // Whether a kind is namespaced is unknown here: as cluster-scoped, it is read only if it is listed.
        let missing: Vec<_> = self
            .descriptor
            .related
            .iter()
            .filter(is_new)
            .filter(|kind| before.may_read(kind, false).is_err())
            .collect();
        if !missing.is_empty() {
            next.related.get_or_insert_default().extend(missing.into_iter().map(RelatedRef::from));
        }
        next
    }

    /// The grants after a push with these flags. Without flags, the push writes the fields again that an earlier push wrote:
    /// server-side apply would remove them.
    ///
    /// # Errors
    /// If a flag names no kind of the component, or several.
    pub fn pushed(self, args: &GrantArgs, existing: Option<&Plugin>) -> anyhow::Result<PushedGrants> {
        let before = existing.map(|plugin| plugin.spec.grants.clone()).unwrap_or_default();
        let kinds: Vec<_> = if args.grant_all_declared {
            self.all().collect()
        } else {
            args.grant.iter().map(|flag| self.find(flag)).collect::<anyhow::Result<_>>()?
        };
        let whole = self.adding(&before, &kinds);
        let is_written = |field: &str| existing.is_some_and(|plugin| pushes(plugin, field));
        let written = GrantsSpec {
            parent: whole.parent.clone().filter(|_| whole.parent != before.parent || is_written("f:parent")),
            children: whole.children.clone().filter(|_| whole.children != before.children || is_written("f:children")),
            related: whole.related.clone().filter(|_| whole.related != before.related || is_written("f:related")),
        };
        Ok(PushedGrants { whole, written })
    }

    /// Checks that the Plugin grants the component's existing parent kind: without it, no component goes live.
    ///
    /// # Errors
    /// If it does not; the message says how to grant the kind.
    pub fn check_parent(self, grants: &GrantsSpec, namespaced: bool) -> anyhow::Result<()> {
        match self.ungranted_parent(&grants.spec_grants(), namespaced) {
            None => Ok(()),
            Some((what, flag)) => bail!(
                "{what}; nothing was written. If you trust the component with that, push again with --grant {flag}"
            ),
        }
    }

    /// Why these grants do not allow the component's existing parent kind, and the value of `--grant` that does; `None` if they do.
    pub fn ungranted_parent(self, grants: &SpecGrants, namespaced: bool) -> Option<(String, String)> {
        let parent = self.parent?;
        let why = grants.may_reconcile(parent, namespaced, self.descriptor.sets_finalizer()).err()?;
        Some((format!("the component reconciles {parent}, which {why}"), self.flag(parent)))
    }

    /// How to grant kinds that a Plugin does not grant.
    pub fn how_to_grant(self, name: &PluginName, grants: &GrantsSpec, withheld: &[&Gvk]) -> String {
        let flags: Vec<_> = withheld.iter().map(|kind| format!("--grant {}", self.flag(kind))).collect();
        let next = self.adding(grants, withheld);
        let mut lists = serde_json::Map::new();
        if next.children != grants.children {
            lists.insert("children".to_owned(), json!(next.children));
        }
        if next.related != grants.related {
            lists.insert("related".to_owned(), json!(next.related));
        }
        format!(
            "note: to grant what was left out, push again with {}. Or write the whole list, which replaces the one before and the \
             default, and push again: kubectl patch plugins.windlass.dev {name} --type=merge -p '{}'",
            flags.join(" "),
            json!({"spec": {"grants": lists}})
        )
    }
}

/// Whether an earlier push wrote this field of `spec.grants`.
fn pushes(plugin: &Plugin, field: &str) -> bool {
    let mut entries = plugin.metadata.managed_fields.iter().flatten().filter(|entry| is_pushs(entry));
    let at = format!("/f:spec/f:grants/{field}");
    entries.any(|entry| entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer(&at).is_some()))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use windlass_core::contract::{ChildRule, Parent, UpdateStrategy};

    use super::*;

    fn kind(text: &str) -> Gvk {
        text.parse().expect("a kind")
    }

    fn descriptor(parent: &str, children: &[&str], related: &[&str]) -> Descriptor {
        let child = |text: &&str| ChildRule { kind: kind(text), update: UpdateStrategy::Apply };
        Descriptor {
            children: children.iter().map(child).collect(),
            related: related.iter().map(|text| kind(text)).collect(),
            ..Descriptor::about("tenants", "1.0.0", Parent::Existing(kind(parent)))
        }
    }

    const ROLE: &str = "Role.v1.rbac.authorization.k8s.io";
    const BINDING: &str = "RoleBinding.v1.rbac.authorization.k8s.io";

    fn tenants() -> Descriptor {
        descriptor("Namespace.v1", &["ConfigMap.v1", "Secret.v1", ROLE, BINDING], &["Node.v1"])
    }

    /// A Plugin with these grants, of which a push wrote the fields in `pushed`.
    fn plugin(grants: &Value, pushed: &Value) -> Plugin {
        serde_json::from_value(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Plugin",
            "metadata": {"name": "tenants", "managedFields": [{
                "manager": "windlass-push", "operation": "Apply", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {"f:grants": pushed}},
            }]},
            "spec": {"source": {"configMap": {"namespace": "n", "name": "tenants"}}, "grants": grants},
        }))
        .expect("a Plugin")
    }

    fn pushed(descriptor: &Descriptor, flags: &[&str], existing: Option<&Plugin>) -> anyhow::Result<PushedGrants> {
        let declared = DeclaredParent::of(descriptor).expect("valid");
        let grant = flags.iter().map(|flag| (*flag).to_owned()).filter(|flag| flag != "all").collect();
        let args = GrantArgs { grant, grant_all_declared: flags.contains(&"all") };
        Declared::of(&declared, descriptor).pushed(&args, existing)
    }

    /// The kinds of a list in `spec.grants`.
    fn kinds(grants: &GrantsSpec, field: &str) -> Vec<String> {
        let list = json!(grants)[field].clone();
        let kind = |one: &Value| one["kind"].as_str().unwrap_or_default().to_owned();
        list.as_array().into_iter().flatten().map(kind).collect()
    }

    #[test]
    fn granting_a_kind_keeps_every_kind_that_was_granted_without_a_list() {
        let found = pushed(&tenants(), &["Role", BINDING], None).expect("grants");
        assert_eq!(kinds(&found.written, "children"), ["ConfigMap", "Secret", "Role", "RoleBinding"]);
        assert_eq!((found.written.parent.clone(), found.written.related.clone()), (None, None));
        assert_eq!(found.whole, found.written);
        let all = pushed(&tenants(), &["all"], None).expect("grants").written;
        assert_eq!(kinds(&all, "children"), ["ConfigMap", "Secret", "Role", "RoleBinding"]);
        assert_eq!(kinds(&all, "related"), ["Node"]);
        assert_eq!(json!(all)["parent"], json!({"apiVersion": "v1", "kind": "Namespace"}));
        // What is granted by default needs no list, which would leave out the kinds of later components.
        let plain = descriptor("Pod.v1", &["ConfigMap.v1"], &[]);
        assert_eq!(pushed(&plain, &["ConfigMap"], None).expect("grants").written, GrantsSpec::default());
    }

    #[test]
    fn granting_a_kind_keeps_the_entries_of_an_existing_list() {
        let grants = json!({
            "children": [{"apiVersion": "v1", "kind": "Secret", "namespaces": ["shop"], "serviceAccountTokens": true}],
            "related": [{"apiVersion": "v1", "kind": "Namespace"}],
        });
        let found = pushed(&tenants(), &["Role"], Some(&plugin(&grants, &json!({})))).expect("grants");
        let children = json!(found.written.children);
        assert_eq!(children[0], grants["children"][0]);
        assert_eq!(children[1]["kind"], "Role");
        // ConfigMaps are no child kind: the user's list leaves them out.
        assert_eq!(kinds(&found.whole, "children"), ["Secret", "Role"]);
        // The list that does not change belongs to its field manager.
        assert_eq!((found.written.related, kinds(&found.whole, "related")), (None, vec!["Namespace".to_owned()]));
    }

    #[test]
    fn push_without_flags_writes_again_exactly_the_grants_that_a_push_wrote() {
        let grants = json!({
            "parent": {"apiVersion": "v1", "kind": "Namespace"},
            "children": [{"apiVersion": "v1", "kind": "Secret"}],
        });
        let by_push = plugin(&grants, &json!({"f:parent": {}, "f:children": {}}));
        assert_eq!(json!(pushed(&tenants(), &[], Some(&by_push)).expect("grants").written), grants);
        let by_both = plugin(&grants, &json!({"f:parent": {}}));
        let found = pushed(&tenants(), &[], Some(&by_both)).expect("grants");
        assert_eq!(json!(found.written), json!({"parent": grants["parent"]}));
        assert_eq!(json!(found.whole), grants);
        let by_user = plugin(&grants, &json!({}));
        assert_eq!(pushed(&tenants(), &[], Some(&by_user)).expect("grants").written, GrantsSpec::default());
    }

    #[test]
    fn flag_that_names_no_kind_of_the_component_or_several_is_refused_with_the_choices() {
        let refused = |flag: &str| {
            let two = descriptor("Pod.v1", &["Issuer.v1.a.example", "Issuer.v1.b.example"], &[]);
            pushed(&two, &[flag], None).expect_err(flag).to_string()
        };
        assert!(refused("Role").contains("It declares Issuer.v1.a.example, Issuer.v1.b.example, Pod.v1"));
        assert!(refused("Issuer").contains("may mean Issuer.v1.a.example or Issuer.v1.b.example"));
        let two = descriptor("Pod.v1", &["Issuer.v1.a.example", "Issuer.v1.b.example"], &[]);
        let declared = DeclaredParent::of(&two).expect("valid");
        let of = |text: &str| Declared::of(&declared, &two).flag(&kind(text));
        assert_eq!((of("Issuer.v1.a.example"), of("Pod.v1")), ("Issuer.v1.a.example".to_owned(), "Pod".to_owned()));
    }

    #[test]
    fn note_about_kinds_without_a_grant_has_the_flags_and_the_whole_list() {
        let (tenants, name) = (tenants(), "tenants".parse().expect("a name"));
        let declared = DeclaredParent::of(&tenants).expect("valid");
        let kinds = Declared::of(&declared, &tenants);
        let note = kinds.how_to_grant(&name, &GrantsSpec::default(), &[&kind(ROLE), &kind("Node.v1")]);
        assert!(note.contains("push again with --grant Role --grant Node. Or"), "{note}");
        let (_, patch) =
            note.split_once("kubectl patch plugins.windlass.dev tenants --type=merge -p '").expect("a command");
        let patch: Value = serde_json::from_str(patch.trim_end_matches('\'')).expect("JSON");
        let all = |field: &str| {
            let list = patch["spec"]["grants"][field].as_array().expect("a list").iter();
            list.map(|one| one["kind"].as_str().expect("a kind").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(all("children"), ["ConfigMap", "Secret", "Role"]);
        assert_eq!(all("related"), ["Node"]);
    }

    #[test]
    fn component_for_a_sensitive_existing_kind_is_pushed_only_with_a_grant_of_the_kind() {
        let check = |parent: &str, namespaced, finalizes, grants: &GrantsSpec| {
            let descriptor = Descriptor { finalizes, ..descriptor(parent, &["ConfigMap.v1"], &[]) };
            let declared = DeclaredParent::of(&descriptor).expect("valid");
            Declared::of(&declared, &descriptor).check_parent(grants, namespaced).map_err(|error| error.to_string())
        };
        let none = GrantsSpec::default();
        let refused = check("Secret.v1", true, false, &none).expect_err("Secrets of all namespaces");
        assert!(refused.contains("nothing was written") && refused.ends_with("--grant Secret"), "{refused}");
        assert!(check("Pod.v1", true, true, &none).expect_err("a finalizer").contains("finalizer"));
        assert_eq!(check("Pod.v1", true, false, &none), Ok(()));
        let secret = GrantsSpec { parent: Some((&kind("Secret.v1")).into()), ..GrantsSpec::default() };
        assert_eq!(check("Secret.v1", true, true, &secret), Ok(()));
    }
}
