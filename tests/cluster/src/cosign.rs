//! Signatures as users make them: with cosign and generated keys, without Sigstore's public services.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tools;

/// How cosign stores signatures in a registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureLayout {
    /// A tag with simple signing payloads, as up to cosign 2.
    Payload,
    /// A bundle that refers to the artifact, as since cosign 3.
    Bundle,
}

/// A pair of keys, and cosign to sign with it.
pub struct Cosign {
    dir: PathBuf,
}

impl Cosign {
    /// Generates a pair of keys in `dir`, which the caller removes.
    pub fn new(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let cosign = Self { dir: std::path::absolute(dir)? };
        cosign.run(&["generate-key-pair"])?;
        Ok(cosign)
    }

    /// The file with the public key.
    pub fn public_key(&self) -> PathBuf {
        self.dir.join("cosign.pub")
    }

    /// Signs an artifact in its registry, named by its digest.
    pub fn sign(&self, reference: &str, layout: SignatureLayout) -> Result<()> {
        let bundle = format!("--new-bundle-format={}", layout == SignatureLayout::Bundle);
        self.run(&[
            "sign",
            "--key=cosign.key",
            "--use-signing-config=false",
            "--tlog-upload=false",
            "--yes",
            &bundle,
            reference,
        ])
    }

    /// Signs a file, and returns the file with the signature's bundle.
    pub fn sign_blob(&self, file: &Path) -> Result<PathBuf> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let bundle = self.dir.join(format!("{name}.sigstore.json"));
        self.run(&[
            "sign-blob",
            "--key=cosign.key",
            "--use-signing-config=false",
            "--tlog-upload=false",
            "--yes",
            "--bundle",
            &bundle.to_string_lossy(),
            &file.to_string_lossy(),
        ])?;
        Ok(bundle)
    }

    fn run(&self, args: &[&str]) -> Result<()> {
        let mut command = Command::new(tools::cosign(&tools::stderr)?);
        // cosign uses no files of the user, and leaves none behind.
        command.args(args).current_dir(&self.dir).env("HOME", &self.dir).env("DOCKER_CONFIG", &self.dir);
        command.env("COSIGN_PASSWORD", "");
        let output = command.output().context("cosign does not start")?;
        if !output.status.success() {
            bail!("cosign {}: {}\n{}", args.join(" "), output.status, String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}
