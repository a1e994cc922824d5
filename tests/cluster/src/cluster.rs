//! One cluster: started for a test and removed with it, or the one that the user named.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::panicking;

use anyhow::{Context, Result, bail, ensure};

use crate::audit::Audit;
use crate::control_plane::{self, AUDIT_LOG, KUBECONFIG, Tools};
use crate::node;
use crate::supervised::{LOCK, Supervised};
use crate::tools::{self, NodeTools};

/// Names a kubeconfig file of a cluster to use instead of a new one.
const EXTERNAL: &str = "WINDLASS_TEST_KUBECONFIG";
/// Keeps the folder (logs, audit log, data) of every cluster.
const KEEP: &str = "WINDLASS_KEEP";

/// The parts of each request that the audit log contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditLevel {
    /// Nothing: no audit log, for benchmarks.
    None,
    /// User, verb, object and result.
    #[default]
    Metadata,
    /// Also the body of the request.
    Request,
    /// Also the body of the response.
    RequestResponse,
}

/// The options of a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// The number of fake Nodes; each has room for 5000 Pods.
    pub nodes: u32,
    /// One real node instead, whose containers run. Takes root; one cluster at a time can have it.
    pub node: bool,
    /// The folder to use, which is kept at the end; if unset, a temporary folder that is removed at the end.
    pub dir: Option<PathBuf>,
    /// Keeps a temporary folder, too. A panic and `WINDLASS_KEEP=1` do the same.
    pub keep: bool,
    /// The content of the audit log.
    pub audit: AuditLevel,
    /// More flags of kube-apiserver; they take precedence over ours.
    pub apiserver_args: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { nodes: 2, node: false, dir: None, keep: false, audit: AuditLevel::default(), apiserver_args: Vec::new() }
    }
}

/// A Kubernetes cluster. Dropping it ends the processes that [`Cluster::start`] started; so does any end of this
/// process.
pub struct Cluster {
    pub(crate) dir: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) kubectl: PathBuf,
    /// The programs of its real node.
    node: Option<NodeTools>,
    life: Life,
}

enum Life {
    /// Ends when this value is dropped.
    Owned { processes: Mutex<Supervised>, keep: bool, remove_dir: bool },
    /// Started by [`crate::up`]; outlives this process.
    Detached,
    /// The user's cluster; only the folder for our files is ours.
    External,
}

impl Cluster {
    /// A new cluster that is ready, or the one that `WINDLASS_TEST_KUBECONFIG` names.
    #[expect(clippy::needless_pass_by_value, reason = "callers write the options in place")]
    pub fn start(options: Options) -> Result<Self> {
        if let Some(kubeconfig) = env::var_os(EXTERNAL).filter(|value| !value.is_empty()) {
            return Self::external(PathBuf::from(kubeconfig));
        }
        let tools = programs(&options)?;
        let remove_dir = options.dir.is_none();
        let dir = folder(options.dir.as_deref())?;
        let started = || -> Result<Self> {
            let processes = Mutex::new(run(&dir, &tools, &options, remove_dir, false)?);
            // Kept if the rest fails.
            let life = Life::Owned { processes, keep: true, remove_dir };
            let mut cluster = Self::new(dir.clone(), &tools, life);
            cluster.connect_node()?;
            if let Life::Owned { keep, .. } = &mut cluster.life {
                *keep = options.keep;
            }
            Ok(cluster)
        };
        started().with_context(|| format!("no cluster; its logs are kept in {}", dir.display()))
    }

    /// An existing cluster, by the administrator's kubeconfig file; dropping the value leaves the cluster unchanged.
    ///
    /// # Errors
    /// If the file does not exist, or kubectl is neither in `PATH` nor can be built.
    pub fn connect(kubeconfig: &Path) -> Result<Self> {
        Self::external(kubeconfig.to_owned())
    }

    pub(crate) fn detached(dir: PathBuf, tools: &Tools) -> Self {
        Self::new(dir, tools, Life::Detached)
    }

    fn new(dir: PathBuf, tools: &Tools, life: Life) -> Self {
        let kubectl = tools.control_plane.kubectl.clone();
        Self { kubeconfig: dir.join(KUBECONFIG), dir, kubectl, node: tools.node.clone(), life }
    }

    /// Connects this machine with the real node, if there is one, and waits until it is Ready.
    pub(crate) fn connect_node(&self) -> Result<()> {
        self.node.as_ref().map_or(Ok(()), |tools| node::connect(self, tools))
    }

    /// Gives the real node the images of an archive (`docker save`).
    ///
    /// # Errors
    /// If the cluster has no real node, or the archive is none.
    pub fn load_image(&self, archive: &Path) -> Result<()> {
        node::load_image(self, self.node.as_ref().context("this cluster has no real node")?, archive)
    }

    /// The process that holds the namespaces of the cluster's processes.
    pub(crate) fn supervisor(&self) -> Result<u32> {
        let lock = self.dir.join(LOCK);
        let text = fs::read_to_string(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
        text.trim().parse().with_context(|| format!("{} names no process", lock.display()))
    }

    fn external(kubeconfig: PathBuf) -> Result<Self> {
        ensure!(
            kubeconfig.is_file(),
            "{EXTERNAL} names {}, which is no file: correct or unset it",
            kubeconfig.display()
        );
        // A user who has a cluster has a kubectl of a matching version.
        let kubectl = match find_in_path("kubectl") {
            Some(path) => path,
            None => tools::kubectl(&tools::stderr)?,
        };
        Ok(Self {
            kubeconfig: fs::canonicalize(kubeconfig)?,
            dir: folder(None)?,
            kubectl,
            node: None,
            life: Life::External,
        })
    }

    /// The administrator's kubeconfig file. Its user is in the group `system:masters`, which is never denied anything;
    /// give the host under test [`Cluster::service_account_kubeconfig`] instead.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The folder with logs (`<component>.log`), audit log and data.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The kubectl that [`Cluster::kubectl`] runs.
    pub fn kubectl_path(&self) -> &Path {
        &self.kubectl
    }

    /// The audit log: the requests that the API server received, with their users.
    ///
    /// # Errors
    /// For a cluster of the user, whose audit log cannot be read.
    pub fn audit(&self) -> Result<Audit> {
        if matches!(self.life, Life::External) {
            bail!(
                "the audit log of the cluster in {EXTERNAL} is out of reach: unset it to run this test on a cluster of its own"
            );
        }
        Ok(Audit::new(self.dir.join(AUDIT_LOG)))
    }

    /// Kills one component (`etcd`, `kube-apiserver`, `kube-controller-manager`, `kube-scheduler`, `kwok`), as a crash
    /// does. [`Cluster::start_component`] starts it again with the same ports and data.
    pub fn stop_component(&self, name: &str) -> Result<()> {
        self.command("stop", name)
    }

    /// Starts a component that was stopped. Returns at once: the component needs some time until it responds.
    pub fn start_component(&self, name: &str) -> Result<()> {
        self.command("start", name)
    }

    /// Pauses a component (SIGSTOP): its connections stay open and silent, as on a dead network.
    pub fn pause_component(&self, name: &str) -> Result<()> {
        self.command("pause", name)
    }

    /// Continues a paused component.
    pub fn resume_component(&self, name: &str) -> Result<()> {
        self.command("resume", name)
    }

    fn command(&self, verb: &str, name: &str) -> Result<()> {
        let Life::Owned { processes, .. } = &self.life else {
            bail!("cannot {verb} {name}: this process did not start the cluster");
        };
        let mut processes = processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes.command(&format!("{verb} {name}"))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let wish = panicking() || env::var_os(KEEP).is_some_and(|value| value != "0" && !value.is_empty());
        match &mut self.life {
            Life::Owned { processes, keep, remove_dir } => {
                let keep = *keep || wish;
                processes.get_mut().unwrap_or_else(PoisonError::into_inner).end(keep);
                if self.node.is_some() {
                    node::remove_control_groups();
                }
                if keep {
                    tools::stderr(&format!("logs of the cluster are kept in {}", self.dir.display()));
                } else if *remove_dir {
                    // The supervisor has done this, unless it was killed.
                    let _ = fs::remove_dir_all(&self.dir);
                }
            }
            Life::External => {
                let _ = fs::remove_dir_all(&self.dir);
            }
            Life::Detached => {}
        }
    }
}

/// The programs of a cluster with these options.
pub(crate) fn programs(options: &Options) -> Result<Tools> {
    let version = env::var(tools::KUBERNETES).unwrap_or_default();
    ensure!(
        !options.node || tools::other_version(&version)?.is_none(),
        "a real node is of the current version of Kubernetes only: unset {}",
        tools::KUBERNETES
    );
    let control_plane = tools::control_plane(&tools::stderr)?;
    let node = if options.node { Some(tools::node(&tools::stderr)?) } else { None };
    Ok(Tools { control_plane, node })
}

/// Starts a control plane in `dir`; retries with other ports if another process took one in the meantime.
pub(crate) fn run(
    dir: &Path,
    tools: &Tools,
    options: &Options,
    remove_dir: bool,
    detached: bool,
) -> Result<Supervised> {
    if tools.node.is_some() {
        node::wait_alone()?;
    }
    let mut tries = 1;
    loop {
        let plan = control_plane::plan(dir, tools, options, remove_dir, detached)?;
        match Supervised::start(&tools.control_plane.supervise, &plan) {
            Err(error) if tries < 3 && format!("{error:#}").contains("address already in use") => {
                tries += 1;
                // The names of etcd's members contain the ports.
                let _ = fs::remove_dir_all(dir.join("etcd"));
            }
            Err(error) if tools.node.is_some() => {
                node::remove_control_groups();
                return Err(error);
            }
            result => return result,
        }
    }
}

fn folder(dir: Option<&Path>) -> Result<PathBuf> {
    let Some(dir) = dir else {
        let dir = tempfile::Builder::new()
            .prefix("windlass-cluster-")
            .tempdir()
            .context("cannot create a temporary folder")?;
        return Ok(dir.keep());
    };
    let dir = std::path::absolute(dir)?;
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let empty = fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?.next().is_none();
    ensure!(empty, "{} is not empty: give a cluster a folder of its own", dir.display());
    Ok(dir)
}

fn find_in_path(program: impl AsRef<OsStr>) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(program.as_ref())).find(|file| file.is_file())
}
