//! A plugin's project: a folder with the files of one language.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

/// A language with an SDK.
// The variants' comments are the help of `windlass new`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, strum::Display)]
pub enum Language {
    /// Rust
    Rust,
    /// Go
    Go,
    /// JavaScript with checked types; TypeScript works as well
    #[value(name = "js")]
    JavaScript,
    /// Python
    Python,
}

impl Language {
    /// All languages.
    pub const ALL: [Self; 4] = [Self::Rust, Self::Go, Self::JavaScript, Self::Python];

    /// The file in a project's folder that shows its language.
    pub fn manifest(self) -> &'static str {
        match self {
            Self::Rust => "Cargo.toml",
            Self::Go => "go.mod",
            Self::JavaScript => "package.json",
            Self::Python => "pyproject.toml",
        }
    }
}

/// A project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Its folder.
    pub folder: PathBuf,
    /// Its language.
    pub language: Language,
    /// The name in its manifest, without scope or path: `greeting`.
    pub name: String,
}

impl Project {
    /// Finds out the language and the name of a project.
    ///
    /// # Errors
    /// If the folder has no manifest or several, or a manifest without a name.
    pub fn find(folder: &Path) -> anyhow::Result<Self> {
        let exists = |language: &Language| folder.join(language.manifest()).is_file();
        let found: Vec<_> = Language::ALL.into_iter().filter(exists).collect();
        let names = |languages: &[Language]| languages.iter().map(|language| language.manifest()).collect::<Vec<_>>();
        let language = match *found {
            [language] => language,
            [] => bail!(
                "{} is not a plugin's project: it has none of {}; `windlass new` makes one",
                folder.display(),
                names(&Language::ALL).join(", ")
            ),
            _ => bail!("{} has {}: cannot tell which one to build", folder.display(), names(&found).join(" and ")),
        };
        let manifest = folder.join(language.manifest());
        let text = fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
        let name = name_in(language, &text).with_context(|| format!("{} is invalid", manifest.display()))?;
        Ok(Self { folder: folder.to_owned(), language, name })
    }
}

/// The name in a manifest.
fn name_in(language: Language, text: &str) -> anyhow::Result<String> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    #[derive(Deserialize)]
    struct Cargo {
        package: Named,
    }
    #[derive(Deserialize)]
    struct PyProject {
        project: Named,
    }
    let name = match language {
        Language::Rust => toml::from_str::<Cargo>(text)?.package.name,
        Language::Python => toml::from_str::<PyProject>(text)?.project.name,
        Language::JavaScript => serde_json::from_str::<Named>(text)?.name,
        Language::Go => {
            let module = text.lines().find_map(|line| line.trim().strip_prefix("module "));
            module.context("it has no line `module NAME`")?.trim().trim_matches('"').to_owned()
        }
    };
    let last = name.rsplit('/').next().unwrap_or_default();
    ensure!(!last.is_empty(), "the name {name:?} is empty");
    Ok(last.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(files: &[(&str, &str)]) -> Result<(Language, String), String> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("written");
        }
        let found = Project::find(folder.path()).map(|project| (project.language, project.name));
        found.map_err(|error| format!("{error:#}").replace(&folder.path().display().to_string(), "DIR"))
    }

    #[test]
    fn language_and_name_of_a_project_are_those_of_its_manifest() {
        for (file, text, language, name) in [
            ("Cargo.toml", "[package]\nname = \"greeting\"", Language::Rust, "greeting"),
            ("go.mod", "module example.com/team/greeting\n\ngo 1.26\n", Language::Go, "greeting"),
            ("package.json", r#"{"name": "@team/greeting"}"#, Language::JavaScript, "greeting"),
            ("pyproject.toml", "[project]\nname = \"greeting\"", Language::Python, "greeting"),
        ] {
            assert_eq!(find(&[(file, text)]), Ok((language, name.to_owned())));
        }
    }

    #[test]
    fn folder_without_a_manifest_or_with_several_is_rejected() {
        let none = find(&[("README.md", "")]).expect_err("no manifest");
        assert_eq!(
            none,
            "DIR is not a plugin's project: it has none of Cargo.toml, go.mod, package.json, pyproject.toml; `windlass new` \
             makes one"
        );
        let two = find(&[("Cargo.toml", ""), ("go.mod", "")]).expect_err("two manifests");
        assert_eq!(two, "DIR has Cargo.toml and go.mod: cannot tell which one to build");
        let nameless = find(&[("package.json", "{}")]).expect_err("no name");
        assert!(nameless.starts_with("DIR/package.json is invalid: missing field `name`"), "{nameless}");
    }
}
