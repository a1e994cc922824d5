//! Go: a main package, compiled by Go's own compiler for WASI's first version.

use std::path::Path;
use std::process::Command;

use crate::contract::write_wit;
use crate::project::Project;
use crate::tools::{Tools, run};
use crate::{module, read};

pub(crate) fn build(project: &Project, tools: &Tools, folder: &Path) -> anyhow::Result<Vec<u8>> {
    let go = tools.find("go", &[], "install Go 1.26 or newer: https://go.dev/dl")?;
    let file = folder.join("module.wasm");
    let mut command = Command::new(&go);
    command.env("GOOS", "wasip1").env("GOARCH", "wasm").current_dir(&project.folder);
    command.args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-buildmode=c-shared", "-ldflags=-s -w"]);
    command.arg("-o").arg(&file).arg(".");
    run(&mut command)?;
    let wit = folder.join("wit");
    write_wit(&wit)?;
    module::of_go(read(&file)?, &wit)
}
