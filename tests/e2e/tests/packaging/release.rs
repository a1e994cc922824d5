//! The files of a release: the workflows, the manifests, and the manifest for krew.

use std::fs;
use std::path::Path;
use std::process::Command;

use windlass_e2e::{SYSTEM_NAMESPACE, text};

use super::{documents, empty, is_kind, repository};

#[test]
fn release_writes_its_image_and_the_address_of_its_runbooks_into_all_manifests() {
    let cluster = empty();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let args = ["-r", "manifests", "packaging"];
    let copied = Command::new("cp").args(args).arg(folder.path()).current_dir(repository()).status();
    assert!(copied.expect("cp starts").success());
    let released = Command::new(folder.path().join("packaging/release")).args(["v0.1.0", "Team/windlass"]).output();
    let released = released.expect("bash");
    assert!(released.status.success(), "{}", String::from_utf8_lossy(&released.stderr));

    let image = "ghcr.io/team/windlass:0.1.0";
    let path = |name: &str| folder.path().join(name).display().to_string();
    let deployed = |manifests: &str| {
        let objects = documents(manifests);
        let deployment = objects.iter().find(|object| is_kind(object, "Deployment")).expect("a Deployment");
        text(deployment, "/spec/template/spec/containers/0/image")
    };
    for base in ["base", "overlays/dev", "overlays/ha", "overlays/sharded"] {
        assert_eq!(
            deployed(&cluster.env.kubectl(&["kustomize", &path(&format!("manifests/kustomize/{base}"))])),
            image
        );
    }
    let (chart, rule) = (path("manifests/chart/windlass"), ["--set", "metrics.prometheusRule.enabled=true"]);
    let release = ["template", "windlass", &chart, "--namespace", SYSTEM_NAMESPACE];
    let rendered = cluster.helm(&[&release[..], &rule].concat());
    assert_eq!(deployed(&rendered), image);
    let read = |name: &str| documents(&fs::read_to_string(path(name)).expect(name)).remove(0);
    let bundle = read("packaging/olm/manifests/windlass.clusterserviceversion.yaml");
    assert_eq!(text(&bundle, "/metadata/annotations/containerImage"), image);
    let pod = "/spec/install/spec/deployments/0/spec/template/spec";
    assert_eq!(text(&bundle, &format!("{pod}/containers/0/image")), image);

    let of_chart = documents(&rendered).into_iter().find(|object| is_kind(object, "PrometheusRule")).expect("rules");
    for rules in [of_chart, read("manifests/monitoring/prometheusrule.yaml")] {
        let page = "https://github.com/Team/windlass/blob/v0.1.0/docs/troubleshooting/alerts.md#windlasshostdown";
        assert_eq!(text(&rules, "/spec/groups/0/rules/0/annotations/runbook_url"), page);
    }
    let left = left_images(&folder.path().join("manifests"));
    assert!(left.is_empty(), "these files name an image that no registry has: {left:?}");
}

/// The files in a folder that name an image `windlass` without a registry.
fn left_images(folder: &Path) -> Vec<String> {
    let found =
        Command::new("grep").args(["-rlE", "mage: \"?windlass(:|\"|$)|repository: windlass$"]).arg(folder).output();
    let found = found.expect("grep starts").stdout;
    String::from_utf8_lossy(&found).lines().map(str::to_owned).collect()
}

#[test]
fn workflows_and_the_filled_krew_manifest_are_valid_yaml() {
    for entry in fs::read_dir(repository().join(".github/workflows")).expect("the workflows") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a workflow");
        let workflow = documents(&text).remove(0);
        assert!(workflow["jobs"].is_object(), "{}", path.display());
        let is_release = path.ends_with("release.yml");
        assert_eq!(text.contains("packaging/release \"$TAG\" \"$GITHUB_REPOSITORY\""), is_release);
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
    let filled = Command::new(fill).args(["v0.1.0", "team/windlass"]).arg(folder.path()).output();
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
