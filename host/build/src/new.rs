//! Makes a new project: a plugin that builds, with its tests, and a copy of the SDK.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

use crate::project::Language;

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// Folder of the SDK's copy in a project.
const SDK: &str = "sdk";

/// What a new project is about.
// The fields' comments are the help of `windlass new`.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct Template {
    /// Name of the plugin: a-z, 0-9 and -. The kind of its parents follows from it: `WebApp` for web-app
    pub name: String,
    /// Language of the project
    #[arg(long = "lang", value_name = "LANG", value_enum)]
    pub language: Language,
    /// Group of the kind: a domain that you own
    #[arg(long, default_value = "example.com")]
    pub group: String,
}

impl Template {
    /// The kind of the parents: `WebApp` for `web-app`.
    pub fn kind(&self) -> String {
        let word = |word: &str| {
            let mut letters = word.chars();
            letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
        };
        self.name.split('-').map(word).collect()
    }

    /// The name of their resource, as the SDKs derive it: `webapps`.
    pub fn plural(&self) -> String {
        let singular = self.kind().to_lowercase();
        let ends_with = |ends: &[&str]| ends.iter().any(|end| singular.ends_with(end));
        match singular.strip_suffix('y') {
            Some(stem) if !ends_with(&["ay", "ey", "oy", "uy"]) => format!("{stem}ies"),
            _ if ends_with(&["s", "x", "z", "o", "ch", "sh"]) => format!("{singular}es"),
            _ => format!("{singular}s"),
        }
    }

    /// Writes the project into a folder, which it creates. Returns the paths of the files in it, without those of the SDK.
    ///
    /// # Errors
    /// If the folder has files already, or a name is invalid. Then nothing is written.
    pub fn write(&self, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
        ensure!(
            is_label(&self.name) && self.name.starts_with(|first: char| first.is_ascii_lowercase()),
            "{:?} is not a name of a plugin: at most 50 of a-z, 0-9 and -, beginning with a letter and not ending with -",
            self.name
        );
        ensure!(
            self.group.contains('.') && self.group.split('.').all(is_label),
            "{:?} is not a group: write a domain that you own, as in example.com",
            self.group
        );
        let kind = self.kind();
        ensure!(
            !self.taken().split(' ').any(|name| name == kind),
            "the kind {kind} has a name that the SDK or the language uses; choose another name"
        );
        if fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some()) {
            bail!("{} exists and is not empty; nothing was written", folder.display());
        }
        let own = format!("{}/", self.folder());
        let mut written = Vec::new();
        for (path, text) in below(TEMPLATES, &own).chain(below(TEMPLATES, "all/")) {
            let path = PathBuf::from(path);
            write(&folder.join(&path), &self.filled(text))?;
            written.push(path);
        }
        for (path, text) in below(SDKS, &own) {
            // Without what it has of the workspace of this repository.
            write(&folder.join(SDK).join(path), &text.replace("[lints]\nworkspace = true\n\n", ""))?;
        }
        written.sort();
        Ok(written)
    }

    /// Folder of the language's template, and of its SDK.
    fn folder(&self) -> &'static str {
        match self.language {
            Language::Rust => "rust",
            Language::Go => "go",
            Language::JavaScript => "js",
            Language::Python => "python",
        }
    }

    /// Names that the template's code uses, with spaces between them: a type with the name of the kind would replace them.
    fn taken(&self) -> &'static str {
        match self.language {
            Language::Rust => {
                "ConfigMap CustomResource Descriptor Deserialize Err Failure JsonSchema Ok Reconciler Request Response Result \
                 Self Serialize String"
            }
            Language::Python => {
                "Annotated Column ConfigMap CustomResource False Invalid Length None Path Plugin Request Response True"
            }
            // No type has the name of the kind.
            Language::Go | Language::JavaScript => "",
        }
    }

    /// A file of a template with the values of this one.
    fn filled(&self, text: &str) -> String {
        text.replace("{{name}}", &self.name)
            .replace("{{kind}}", &self.kind())
            .replace("{{resource}}", &self.kind().to_lowercase())
            .replace("{{plural}}", &self.plural())
            .replace("{{group}}", &self.group)
    }
}

/// The files of a list below a folder, with their paths in it.
fn below(files: &'static [(&str, &str)], folder: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    files.iter().filter_map(move |(path, text)| Some((path.strip_prefix(folder)?, *text)))
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    let problem = || format!("cannot write {}", file.display());
    fs::create_dir_all(file.parent().unwrap_or(file)).with_context(problem)?;
    fs::write(file, text).with_context(problem)
}

/// Whether a name is a DNS label, and short enough that a label's value can have it with a suffix.
fn is_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=50).contains(&name.len()) && name.bytes().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(name: &str, group: &str) -> Template {
        Template { language: Language::Rust, name: name.to_owned(), group: group.to_owned() }
    }

    #[test]
    fn project_has_the_plugins_names_and_a_copy_of_the_sdk() {
        let folders = tempfile::tempdir().expect("a folder");
        for language in Language::ALL {
            let folder = folders.path().join(language.to_string());
            let new = Template { language, ..template("web-app", "apps.example.com") };
            let files = new.write(&folder).expect("written");
            assert!(files.contains(&PathBuf::from(language.manifest())), "{files:?}");
            for file in &files {
                let text = fs::read_to_string(folder.join(file)).expect("text");
                let is_placeholder = |(word, _): (&str, &str)| word.bytes().all(|byte| byte.is_ascii_lowercase());
                let has_placeholder =
                    text.split("{{").skip(1).any(|rest| rest.split_once("}}").is_some_and(is_placeholder));
                assert!(!has_placeholder, "{}: a value is missing", file.display());
            }
            let sample = fs::read_to_string(folder.join("sample.yaml")).expect("a sample");
            assert!(sample.contains("apiVersion: apps.example.com/v1\nkind: WebApp\n"), "{sample}");
            let manifest = fs::read_to_string(folder.join(SDK).join(language.manifest())).expect("an SDK");
            assert!(!manifest.contains("workspace = true"), "{manifest}");
            assert_eq!(crate::Project::find(&folder).expect("a project").name, "web-app");
        }
    }

    #[test]
    fn folder_with_files_and_invalid_names_are_rejected_and_nothing_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let rejected = |new: Template| new.write(&folder.path().join("new")).expect_err("rejected").to_string();
        for name in ["", "Web", "web_app", "-web", "web-", "1web", "a/b", ".."] {
            assert!(rejected(template(name, "example.com")).contains("is not a name of a plugin"), "{name}");
        }
        for group in ["", "example", "example..com", "Example.com"] {
            assert!(rejected(template("web", group)).contains("is not a group"), "{group}");
        }
        assert!(!folder.path().join("new").exists());
        fs::write(folder.path().join("mine"), "").expect("written");
        let problem = template("web", "example.com").write(folder.path()).expect_err("files exist").to_string();
        assert!(problem.ends_with("exists and is not empty; nothing was written"), "{problem}");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn kind_and_resource_follow_from_the_name() {
        for (name, kind, plural) in [
            ("greeting", "Greeting", "greetings"),
            ("web-app", "WebApp", "webapps"),
            ("proxy", "Proxy", "proxies"),
            ("gateway", "Gateway", "gateways"),
            ("s3-box", "S3Box", "s3boxes"),
        ] {
            let new = template(name, "example.com");
            assert_eq!((new.kind(), new.plural()), (kind.to_owned(), plural.to_owned()));
        }
    }

    #[test]
    fn kind_with_a_name_that_the_template_uses_is_rejected() {
        let folder = tempfile::tempdir().expect("a folder");
        for (language, name, kind) in [
            (Language::Rust, "self", "Self"),
            (Language::Rust, "config-map", "ConfigMap"),
            (Language::Python, "none", "None"),
            (Language::Python, "response", "Response"),
        ] {
            let new = Template { language, ..template(name, "example.com") };
            let problem = new.write(&folder.path().join("new")).expect_err("rejected").to_string();
            assert!(problem.starts_with(&format!("the kind {kind} has a name")), "{problem}");
        }
        for language in [Language::Rust, Language::Python] {
            let new = Template { language, ..template("web", "example.com") };
            let own = format!("{}/", new.folder());
            let texts = below(TEMPLATES, &own).map(|(_, text)| text);
            let imports = texts
                .flat_map(str::lines)
                .map(str::trim_start)
                .filter(|line| (line.starts_with("use ") || line.starts_with("from ")) && !line.contains("{{"));
            let words = imports.flat_map(|line| line.split(|letter: char| !letter.is_alphanumeric()));
            let types: Vec<_> = words.filter(|word| word.starts_with(char::is_uppercase)).collect();
            assert!(types.contains(&"Response"), "{types:?}");
            for name in types {
                assert!(new.taken().split(' ').any(|taken| taken == name), "{name} is imported in {language}");
            }
        }
    }

    #[test]
    fn tutorials_show_the_code_of_a_new_project() {
        for (language, page, files) in [
            (Language::Rust, "tutorial", &["src/lib.rs"][..]),
            (Language::Go, "tutorial-go", &["main.go", "main_test.go"]),
            (Language::JavaScript, "tutorial-js", &["src/plugin.js", "test/plugin.test.js"]),
            (Language::Python, "tutorial-python", &["plugin.py", "test_plugin.py"]),
        ] {
            let path = format!("{}/../../docs/{page}.md", env!("CARGO_MANIFEST_DIR"));
            let text = fs::read_to_string(&path).expect("a page");
            let new = Template { language, ..template("greeting", "example.com") };
            for file in files {
                let shown = below(TEMPLATES, &format!("{}/", new.folder())).find(|(path, _)| path == file);
                let code = new.filled(shown.expect("a file of the template").1);
                // A page may show the code and its tests apart.
                let parts = code.split("#[cfg(test)]\n");
                for part in parts {
                    assert!(text.contains(part.trim_end()), "docs/{page}.md does not show {file} as it is");
                }
            }
        }
    }
}
