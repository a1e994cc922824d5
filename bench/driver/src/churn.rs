//! The host's memory while parents, children and the component change all the time, and after it (`--only churn`).

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use http::Method;
use serde_json::json;

use crate::contestant::{Contestant, Task};
use crate::http::JSON;
use crate::observer::Observer;
use crate::process::Memory;
use crate::scale::quiet;
use crate::settings::{Amounts, CHILDREN, PAYLOAD, Paths, REST};
use crate::stage::{CONFIG_MAPS, LOADS, NAMESPACE, Stage, WINDLASS_USER};

/// The number of parents, which stays the same: each parent that is deleted is created again a second later.
pub const PARENTS: usize = 260;
/// Parents whose spec changes in a second.
const CHANGED: usize = 4;
/// Children that are deleted in a second; the host creates them again.
const DELETED: usize = 3;
/// The time between two deliveries of a component, and between two figures.
const MINUTE: Duration = Duration::from_mins(1);
/// The time that the host may take to reach its steady state after the churn.
const PATIENCE: Duration = Duration::from_mins(2);
/// The time for which its requests are counted then.
const COUNTED: Duration = Duration::from_secs(30);
/// After this many minutes, the memory should no longer grow.
pub const WARM: usize = 10;

/// The figures.
#[derive(Debug, Clone)]
pub struct Churn {
    /// The memory at the end of each minute.
    pub minutes: Vec<Memory>,
    /// The memory once the host was idle again.
    pub after: Memory,
    /// Writes of parents and children after that.
    pub writes_after: usize,
    /// Requests of the driver that the API server refused: most are deletions of a child that was being recreated.
    pub refused: usize,
}

/// Measures on one cluster, with the controllers: the garbage collector deletes the children of deleted parents.
pub async fn measure(paths: &Paths, amounts: &Amounts, say: &dyn Fn(&str)) -> anyhow::Result<Churn> {
    say(&format!("churn: {PARENTS} parents with {CHILDREN} children, {} minutes", amounts.churn_minutes));
    let stage = Stage::new(paths, true).await?;
    let components = [paths.load.clone(), twin(&paths.load, stage.dir())?];
    stage.push(&[("load", &paths.load)])?;
    stage.create_loads(0, PARENTS, CHILDREN, PAYLOAD).await?;
    let observer = Observer::start(&stage.admin).await?;
    let mut host = Contestant::Windlass.start(&stage, paths, Task::Create)?;
    observer.wait_settled(PARENTS, PARENTS * CHILDREN, &mut host, PATIENCE).await?;
    drop(observer);

    let (mut minutes, mut refused) = (Vec::new(), 0);
    let mut step = 0;
    for minute in 1..=amounts.churn_minutes {
        let component = components.iter().cycle().nth(minute).context("no component")?;
        stage.push(&[("load", component)])?;
        let begun = Instant::now();
        while begun.elapsed() < MINUTE {
            refused += second(&stage, step).await?;
            step += 1;
            ensure!(host.lives(), "the host ended by itself: {}", host.said());
        }
        let memory = host.memory()?;
        say(&format!("  minute {minute}: {} KB anonymous, {} KB resident", memory.anonymous / 1000, memory.rss / 1000));
        minutes.push(memory);
    }

    tokio::time::sleep(REST).await;
    quiet(&host).await?;
    let after = host.memory()?;
    let audit = stage.cluster().audit()?;
    let mark = audit.mark()?;
    tokio::time::sleep(COUNTED).await;
    let about = |event: &&windlass_testbed::AuditEvent| {
        matches!(event.resource.as_str(), "loads" | "configmaps") && event.namespace == NAMESPACE
    };
    let writes_after = audit.since(mark)?.by_user(WINDLASS_USER).iter().filter(about).count();
    host.stop()?;
    Ok(Churn { minutes, after, writes_after, refused })
}

/// Makes the changes of one second. Returns how many the API server refused.
async fn second(stage: &Stage, step: usize) -> anyhow::Result<usize> {
    let begun = Instant::now();
    let parent = |at: usize| format!("load-{}", at % PARENTS);
    let mut refused = 0;
    // The parent that is recreated is neither changed nor loses a child in the same second.
    let recreated = step * 7;
    let deleted = stage.admin.write(Method::DELETE, &format!("{LOADS}/{}", parent(recreated)), JSON, "".into()).await;
    refused += usize::from(deleted.is_err());
    for at in 0..CHANGED {
        let changed = stage.note(&parent(recreated + 1 + at), &format!("step {step}")).await;
        refused += usize::from(changed.is_err());
    }
    for at in 0..DELETED {
        let child = format!("{CONFIG_MAPS}/{}-{}", parent(recreated + 10 + at), at % CHILDREN);
        let deleted = stage.admin.write(Method::DELETE, &child, JSON, "".into()).await;
        refused += usize::from(deleted.is_err());
    }
    tokio::time::sleep(Duration::from_secs(1).saturating_sub(begun.elapsed())).await;
    let body = json!({
        "apiVersion": "bench.example/v1", "kind": "Load",
        "metadata": {"name": parent(recreated), "namespace": NAMESPACE},
        "spec": {"children": CHILDREN, "payload": PAYLOAD, "note": format!("created in step {step}")},
    });
    stage.admin.write(Method::POST, LOADS, JSON, body.to_string().into()).await?;
    Ok(refused)
}

/// A copy of a component that behaves the same and has another digest: it has one more custom section.
fn twin(component: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    // Section 0, four bytes, of which the first is the length of the name "two".
    const SECTION: [u8; 6] = [0, 4, 3, b't', b'w', b'o'];
    let mut bytes = std::fs::read(component).context("the measured component cannot be read")?;
    bytes.extend_from_slice(&SECTION);
    let path = folder.join("twin.wasm");
    std::fs::write(&path, bytes)?;
    Ok(path)
}
