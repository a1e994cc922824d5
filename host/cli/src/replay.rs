//! `windlass replay`: repeats recorded calls, and shows where the results differ. It needs no cluster.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use serde::Serialize;
use serde_json::json;
use windlass_core::object::child::ChildId;
use windlass_core::reconcile::recording::{Change, Changed, RecordedCall};
use windlass_engine::plugins::caps::{Capped, Caps};
use windlass_engine::telemetry::one_line;
use windlass_sandbox::Component;

use super::component::{ComponentArgs, ComponentRef, LoadArgs};
use super::output::{Report, print_report, write};
use super::recording_file::{Header, read};
use super::repeat::{limits, repeat};

/// Exit code: a result differs.
const DIFFERENT: u8 = 1;

/// Flags of `windlass replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  windlass replay echo.calls.jsonl
  windlass replay echo.calls.jsonl --with target/guests/echo-v2.wasm
  windlass replay echo.calls.jsonl -o json

Each call gets the recorded request, clock and random numbers, so the same component gives the same bytes. It also gets the recorded \
limits, but none above the caps: a recording may come from anywhere. \
--kubeconfig and --context are used only for a component in `configmap/NAMESPACE/NAME`.

Exit codes:
  0  all results are equal, byte for byte
  1  some results differ
  2  wrong usage
  3  the command failed; the message says why")]
pub struct Args {
    /// File that `windlass record` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Component to call instead of the recorded one: a file, `oci://REFERENCE`, or `configmap/NAMESPACE/NAME`
    #[arg(long, value_name = "COMPONENT")]
    with: Option<ComponentRef>,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: Report,
    #[command(flatten)]
    options: LoadArgs,
    #[command(flatten)]
    caps: Caps,
}

/// One repeated call.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Replayed {
    number: u64,
    parent: ChildId,
    at: jiff::Timestamp,
    is_equal: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differences: Vec<Change>,
    guest_time_us: u64,
    recorded_guest_time_us: u64,
}

/// Repeats the calls of a recording.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let (header, calls) = read(&args.file)?;
    let component = component(&header, args.with, args.options)?;
    let (mut replayed, mut count, mut different) = (Vec::new(), 0u64, 0u64);
    let mut capped = BTreeSet::new();
    for call in calls {
        let Some((one, lowered)) = replay(&component, &call?, &args.caps)? else { continue };
        for limit in lowered.iter().map(ToString::to_string).filter(|limit| !capped.contains(limit)).collect::<Vec<_>>()
        {
            err!("note: the recording has a higher limit; the call has {limit}");
            capped.insert(limit);
        }
        count += 1;
        different += u64::from(!one.is_equal);
        match args.output {
            Report::Text => write(&text(&one))?,
            Report::Json | Report::Yaml => replayed.push(one),
        }
    }
    anyhow::ensure!(count > 0, "{} has no calls; record for longer, or change a parent meanwhile", args.file.display());
    let digest = component.digest().to_string();
    let end = || match different {
        0 => format!("all results are equal: {count} calls of component {digest}\n"),
        _ => String::new(),
    };
    let whole = || json!({"component": digest, "different": different, "calls": replayed});
    print_report(args.output, end, whole)?;
    if args.output == Report::Text && different > 0 {
        err!("error: {different} results differ with component {digest}");
    }
    Ok(if different > 0 { ExitCode::from(DIFFERENT) } else { ExitCode::SUCCESS })
}

/// The component to call: the given one, or the one in the recording.
fn component(header: &Header, with: Option<ComponentRef>, options: LoadArgs) -> anyhow::Result<Arc<Component>> {
    if let Some(component) = with {
        return ComponentArgs { component, options }.load();
    }
    let missing =
        || format!("the recording does not contain component {}; name the component with --with", header.component);
    let component = options.cache.load(&header.wasm()?.with_context(missing)?)?;
    let (found, wanted) = (component.digest().to_string(), &header.component);
    anyhow::ensure!(found == *wanted, "the recording is damaged: its component has digest {found} instead of {wanted}");
    Ok(component)
}

/// Repeats one call, with the limits that the caps lowered; none if the line has no call.
fn replay(
    component: &Component,
    recorded: &RecordedCall,
    caps: &Caps,
) -> anyhow::Result<Option<(Replayed, Vec<Capped>)>> {
    let Some(call) = &recorded.call else { return Ok(None) };
    let of_call = || format!("call {} of {}", recorded.number, recorded.parent);
    let (limits, capped) = limits(&call.limits, caps);
    let repeated = repeat(component, call, &limits).with_context(of_call)?;
    let expected =
        call.result_digest.as_deref().with_context(of_call).context("no digest of the result is recorded")?;
    let is_equal = repeated.digest == expected;
    let mut differences = if is_equal { Vec::new() } else { call.result.differences(&repeated.result) };
    if !is_equal && differences.is_empty() {
        differences.push(Change { subject: "response".to_owned(), change: Changed::Bytes });
    }
    let replayed = Replayed {
        number: recorded.number,
        parent: recorded.parent.clone(),
        at: recorded.at,
        is_equal,
        differences,
        guest_time_us: repeated.report.guest_time_us,
        recorded_guest_time_us: call.guest_time_us,
    };
    Ok(Some((replayed, capped)))
}

fn text(one: &Replayed) -> String {
    let Replayed { number, parent, guest_time_us, recorded_guest_time_us, .. } = one;
    let comparison = if one.is_equal { "equal" } else { "DIFFERENT" };
    let title =
        format!("call {number} of {parent}: {comparison} ({guest_time_us} µs, recorded {recorded_guest_time_us} µs)");
    let changes = one.differences.iter().flat_map(super::explain::lines_of);
    let changes = changes.map(|line| format!("  {}\n", one_line(&line)));
    std::iter::once(format!("{}\n", one_line(&title))).chain(changes).collect()
}
