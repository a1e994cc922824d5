//! Which module of a crate imports which, by the paths in its code: `use` declarations, and paths that begin with `crate`, `self`,
//! `super` or a module's own child. Tests are left out.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "a test ends by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Item, ItemUse, Macro, UseTree, parse_quote};

/// A module by the names on the way to it; empty for the crate's root.
pub type Module = Vec<String>;

/// The modules of a crate, each with those that it imports from.
#[derive(Debug, Default)]
pub struct Graph(BTreeMap<Module, BTreeSet<Module>>);

impl Graph {
    /// The graph of a crate's sources: paths below `src`, with the code of each file.
    pub fn new<'a>(files: impl IntoIterator<Item = (&'a Path, String)>) -> Self {
        let files: BTreeMap<_, _> = files.into_iter().map(|(path, code)| (module_of(path), code)).collect();
        let mut graph = Self(files.keys().map(|module| (module.clone(), BTreeSet::new())).collect());
        for (module, code) in &files {
            let imported: BTreeSet<_> = paths(code).iter().filter_map(|path| graph.resolve(module, path)).collect();
            graph.0.insert(module.clone(), imported);
        }
        graph
    }

    /// All pairs of a module and a module that it imports from.
    pub fn imports(&self) -> impl Iterator<Item = (&Module, &Module)> {
        self.0.iter().flat_map(|(module, imported)| imported.iter().map(move |imported| (module, imported)))
    }

    /// The cycles of modules that import each other. Imports of a module from its own ancestors do not count.
    pub fn cycles(&self) -> Vec<BTreeSet<&Module>> {
        let reachable: BTreeMap<_, _> = self.0.keys().map(|module| (module, self.reachable_from(module))).collect();
        let mut cycles = Vec::<BTreeSet<&Module>>::new();
        for module in self.0.keys().filter(|module| reachable[module].contains(module)) {
            if !cycles.iter().any(|cycle| cycle.contains(module)) {
                let is_in = |other: &&&Module| reachable[*other].contains(module) && reachable[module].contains(*other);
                cycles.push(self.0.keys().collect::<Vec<_>>().iter().filter(is_in).copied().collect());
            }
        }
        cycles
    }

    fn reachable_from(&self, module: &Module) -> BTreeSet<&Module> {
        let mut reachable = BTreeSet::new();
        let not_above = |module: &Module| {
            let module = module.clone();
            move |imported: &&Module| !module.starts_with(imported)
        };
        let mut open: Vec<_> = self.0[module].iter().filter(not_above(module)).collect();
        while let Some(next) = open.pop() {
            if reachable.insert(next) {
                open.extend(self.0[next].iter().filter(not_above(next)));
            }
        }
        reachable
    }

    /// The module of this crate that a path leads into; none if that is `module` itself, or in another crate.
    fn resolve(&self, module: &Module, path: &[String]) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        let mut target: Module = match first.as_str() {
            "crate" => rest.to_vec(),
            "self" => [module, rest].concat(),
            "super" => {
                let up = path.iter().take_while(|part| *part == "super").count();
                [&module[..module.len().checked_sub(up)?], &path[up..]].concat()
            }
            child => {
                let child = [&module[..], &[child.to_owned()]].concat();
                if !self.0.contains_key(&child) {
                    return None;
                }
                [child, rest.to_vec()].concat()
            }
        };
        while !self.0.contains_key(&target) {
            target.pop()?;
        }
        (target != *module).then_some(target)
    }
}

fn module_of(path: &Path) -> Module {
    let mut parts: Module = path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        parts.pop();
    }
    parts
}

/// Every path in a file, one for each name that a `use` brings in. What only tests see is left out.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut paths = Paths::default();
    paths.visit_file(&syn::parse_file(code).expect("Rust"));
    paths.0
}

#[derive(Default)]
struct Paths(Vec<Vec<String>>);

impl Paths {
    /// The paths of a `use` tree: `a::{b, c::d}` is `a::b` and `a::c::d`.
    fn expand(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: &Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.expand(&with(&path.ident), &path.tree),
            UseTree::Name(name) => self.0.push(with(&name.ident)),
            UseTree::Rename(name) => self.0.push(with(&name.ident)),
            UseTree::Glob(_) => self.0.push(before.to_vec()),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.expand(before, tree)),
        }
    }

    /// Paths in the arguments of a macro, which are only tokens.
    fn scan(&mut self, tokens: TokenStream) {
        let mut path = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) if colons == 2 && !path.is_empty() => path.push(name.to_string()),
                TokenTree::Ident(name) => {
                    self.0.push(std::mem::replace(&mut path, vec![name.to_string()]));
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => self.scan(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => self.0.push(std::mem::take(&mut path)),
            }
            colons = 0;
        }
        self.0.push(path);
    }
}

impl<'a> Visit<'a> for Paths {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Use(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !attributes.contains(&parse_quote!(#[cfg(test)])) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        self.expand(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'a Macro) {
        self.scan(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> Graph {
        Graph::new(files.iter().map(|(path, code)| (Path::new(path), (*code).to_owned())))
    }

    fn imports(graph: &Graph) -> Vec<String> {
        graph.imports().map(|(from, to)| format!("{} → {}", from.join("/"), to.join("/"))).collect()
    }

    #[test]
    fn import_is_found_in_every_form() {
        let files = [
            ("main.rs", "mod a;\nmod b;\nfn main() { a::run(); }"),
            ("a/mod.rs", "mod c;\npub use self::c::C;\nuse crate::b::{One, deep::{Two, Three}};"),
            (
                "a/c.rs",
                "use std::fmt;\nuse super::super::b as other;\nfn f() { print(\"use crate::none;\"); matches!(x, crate::b::deep::X) }",
            ),
            ("b/mod.rs", "// use crate::a::Commented;\n#[cfg(test)]\nuse crate::a::OfTests;\nmod deep;"),
            ("b/deep.rs", "pub struct X;\n#[cfg(test)]\nmod tests {\n use crate::a::C;\n}"),
        ];
        let found = imports(&graph(&files));
        assert_eq!(found, [" → a", "a → a/c", "a → b", "a → b/deep", "a/c → b", "a/c → b/deep"]);
    }

    #[test]
    fn planted_cycle_is_found_with_all_its_modules() {
        let mut files = vec![
            ("main.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::c::C;"),
            ("c.rs", "pub struct C;"),
            ("d/mod.rs", "mod part; use crate::a::A; use part::P;"),
            ("d/part.rs", "use super::Whole;"),
        ];
        assert!(graph(&files).cycles().is_empty(), "a submodule may import from its parent module");
        files[3].1 = "use crate::a::A;";
        let graph = graph(&files);
        let cycles = graph.cycles();
        let named: Vec<Vec<_>> =
            cycles.iter().map(|cycle| cycle.iter().map(|module| module.join("/")).collect()).collect();
        assert_eq!(named, [["a", "b", "c"]]);
    }
}
