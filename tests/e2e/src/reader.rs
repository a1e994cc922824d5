//! A reader of the documentation, who runs the commands of a page in a shell.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use windlass_book::{Block, Page};

use crate::{Env, windlass};

/// A shell with `windlass`, and `kubectl` for a cluster. It keeps its current folder from block to block.
pub struct Reader {
    folder: PathBuf,
    /// Where the shell leaves the name of its folder.
    last_folder: PathBuf,
    kubeconfig: PathBuf,
    kubectl: PathBuf,
    variables: Vec<(OsString, OsString)>,
    variables_to_build: Vec<(OsString, OsString)>,
}

impl Reader {
    /// Begins in this folder.
    pub fn new(env: &Env, folder: PathBuf) -> Self {
        let cluster = env.cluster();
        Self {
            folder,
            last_folder: cluster.dir().join("reader-folder"),
            kubeconfig: cluster.kubeconfig().to_owned(),
            kubectl: cluster.kubectl_path().to_owned(),
            variables: Vec::new(),
            variables_to_build: Vec::new(),
        }
    }

    /// Sets environment variables.
    #[must_use]
    pub fn with_variables(mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.variables.extend(variables);
        self
    }

    /// Sets environment variables for `windlass build` alone.
    #[must_use]
    pub fn with_variables_to_build(mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        self.variables_to_build.extend(variables);
        self
    }

    /// A file, relative to the current folder.
    pub fn file(&self, path: &Path) -> PathBuf {
        self.folder.join(path)
    }

    /// Runs a block of commands, which ends at the first one that fails. Returns what it prints.
    pub fn run(&mut self, page: &Page, block: &Block) -> String {
        let script = format!("exec 2>&1\n{}{}\npwd >{}\n", self.programs(), block.text, quoted(&self.last_folder));
        let mut shell = Command::new("sh");
        shell.args(["-euc", &script]).current_dir(&self.folder).env("KUBECONFIG", &self.kubeconfig);
        // The variables of the cargo that runs the tests are not a user's.
        let of_cargo = env::vars_os().map(|(name, _)| name).filter(|name| name.to_string_lossy().starts_with("CARGO"));
        of_cargo.for_each(|name| _ = shell.env_remove(name));
        let output = shell.envs(self.variables.iter().cloned()).output().expect("sh starts");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let (path, line, commands) = (page.path.display(), block.line, &block.text);
        assert!(output.status.success(), "{path}:{line}: {}\n{commands}\nprinted:\n{printed}", output.status);
        let folder = fs::read_to_string(&self.last_folder).expect("the shell's folder");
        self.folder = PathBuf::from(folder.trim_end());
        printed
    }

    /// Functions that stand for the programs. Scripts would have to be written first, and a file that was just written cannot
    /// always be run.
    fn programs(&self) -> String {
        let windlass = windlass();
        let program = Path::new(windlass.get_program()).canonicalize().expect("the binary");
        let mut setup = String::new();
        for (name, value) in windlass.get_envs() {
            let name = name.to_string_lossy();
            _ = match value {
                Some(value) => writeln!(setup, "export {name}={}", quoted(value)),
                None => writeln!(setup, "unset {name}"),
            };
        }
        let mut to_build = String::new();
        for (name, value) in &self.variables_to_build {
            _ = writeln!(to_build, "export {}={}", name.to_string_lossy(), quoted(value));
        }
        // The host compiles components with a low priority, and other tests keep this machine busy for minutes.
        format!(
            "windlass() (\n{setup}case \"$1\" in\nbuild)\n:\n{to_build};;\npush) set -- \"$@\" --timeout 15m;;\nesac\nexec {} \"$@\"\n)\n\
             kubectl() {{\n{} \"$@\"\n}}\n",
            quoted(program.as_os_str()),
            quoted(&self.kubectl)
        )
    }
}

/// A text as one word of a shell.
fn quoted(text: impl AsRef<OsStr>) -> String {
    format!("'{}'", text.as_ref().to_string_lossy().replace('\'', r"'\''"))
}
