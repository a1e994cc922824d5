//! `cargo xtask cluster`: only the local control plane.

use std::path::PathBuf;

use windlass_testbed::Options;

use crate::run::root;

/// Subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Start a control plane that runs until `down`, and print the commands that let a shell use it
    Up {
        /// With a real node instead of fake ones: Pods run, in namespaces of their own. Takes root, and Debian's packages buildah, runc
        /// and iptables; installs those that are missing
        #[arg(long)]
        node: bool,
        /// Archive of an image for the real node, such as the one that `cargo xtask image` writes; may be repeated
        #[arg(long, value_name = "FILE", requires = "node")]
        image: Vec<PathBuf>,
        /// Its folder; default: target/cluster
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Stop the control plane and remove its folder
    Down {
        /// Its folder; default: target/cluster
        #[arg(long)]
        dir: Option<PathBuf>,
    },
}

/// Runs the subcommand.
pub fn main(command: &Command) -> anyhow::Result<()> {
    let (Command::Up { dir, .. } | Command::Down { dir }) = command;
    let dir = dir.clone().map_or_else(|| Ok::<_, anyhow::Error>(root()?.join("target/cluster")), Ok)?;
    match command {
        Command::Up { node, image, .. } => {
            let cluster = windlass_testbed::up(&dir, &Options { node: *node, ..Options::default() })?;
            for archive in image {
                cluster.load_image(archive)?;
            }
            println!("export KUBECONFIG={}", cluster.kubeconfig().display());
            if let Some(folder) = cluster.kubectl_path().parent() {
                println!("export PATH=\"$PATH:{}\"  # has a kubectl", folder.display());
            }
        }
        Command::Down { .. } => {
            let ran = windlass_testbed::down(&dir)?;
            println!("{}", if ran { "the cluster was stopped and removed" } else { "no cluster was running" });
        }
    }
    Ok(())
}
