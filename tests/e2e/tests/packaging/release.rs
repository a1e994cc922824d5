//! The files of a release: the workflows, and the manifest for krew.

use std::fs;

use windlass_e2e::text;

use super::{documents, repository};

#[test]
fn workflows_and_the_filled_krew_manifest_are_valid_yaml() {
    for entry in fs::read_dir(repository().join(".github/workflows")).expect("the workflows") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a workflow");
        let workflow = documents(&text).remove(0);
        assert!(workflow["jobs"].is_object(), "{}", path.display());
        // An action is code with access to the release: it is pinned by its commit.
        for action in text.lines().filter_map(|line| line.trim().strip_prefix("- uses: ")) {
            let commit = action.split(['@', ' ']).nth(1).expect("a version");
            assert!(commit.len() == 40, "{}: {action}", path.display());
        }
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    for arch in ["amd64", "arm64"] {
        fs::write(folder.path().join(format!("windlass-linux-{arch}.tar.gz")), arch).expect("an archive");
    }
    let fill = repository().join("packaging/krew/fill");
    let filled = std::process::Command::new(fill).args(["v0.1.0", "team/windlass"]).arg(folder.path()).output();
    let filled = filled.expect("bash");
    assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));
    let manifest = documents(&String::from_utf8_lossy(&filled.stdout)).remove(0);
    assert!(!manifest.to_string().contains('@'), "{manifest:#}");
    for (platform, arch) in manifest["spec"]["platforms"].as_array().expect("platforms").iter().zip(["amd64", "arm64"])
    {
        let sum = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(arch));
        assert_eq!(text(platform, "/sha256"), sum);
        assert!(
            text(platform, "/uri")
                .ends_with(&format!("team/windlass/releases/download/v0.1.0/windlass-linux-{arch}.tar.gz"))
        );
    }
}
