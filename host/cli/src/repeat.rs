//! Repeats a recorded call with a component, for `windlass record` and `windlass replay`.

use std::time::{Duration, SystemTime};

use windlass_core::contract::{CallReport, Limits};
use windlass_core::reconcile::recording::{Exchange, RecordedResult, digest, export_result};
use windlass_engine::plugins::caps::{Capped, Caps};
use windlass_sandbox::{Ambient, Component, run_here};

/// Minimum deadline of a repeated call, unless the cap is lower: this machine may be slower than that of the host.
const DEADLINE: Duration = Duration::from_secs(10);

/// The result of a repeated call.
pub struct Repeated {
    pub result: RecordedResult,
    /// Hash of the result's bytes.
    pub digest: String,
    pub report: CallReport,
}

/// Limits for the repetition of a call with these limits.
pub fn for_repetition(limits: &Limits) -> Limits {
    Limits { deadline: limits.deadline.max(DEADLINE), ..limits.clone() }
}

/// The limits of a recorded call for its repetition, and those of the recording that these caps lower.
pub fn limits(recorded: &Limits, caps: &Caps) -> (Limits, Vec<Capped>) {
    let (limits, capped) = caps.clamp(recorded);
    (caps.clamp(&for_repetition(&limits)).0, capped)
}

/// Calls a component with a recorded request, clock and seed.
///
/// # Errors
/// If the recorded request is not valid.
pub fn repeat(component: &Component, exchange: &Exchange, limits: &Limits) -> anyhow::Result<Repeated> {
    let ambient = Ambient { seed: exchange.seed()?, now: SystemTime::from(exchange.now) };
    let request = exchange.request.request()?;
    let (result, report) = run_here(component.reconcile(&request, limits, ambient));
    Ok(Repeated { result: export_result(&result), digest: digest(&result).to_string(), report })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use windlass_engine::plugins::caps::Caps;

    /// The caps by these flags of `windlass replay`.
    fn caps(flags: &[&str]) -> Caps {
        #[derive(Parser)]
        struct Flags {
            #[command(flatten)]
            caps: Caps,
        }
        Flags::parse_from(std::iter::once(&"replay").chain(flags)).caps
    }

    fn recorded(deadline_ms: u64) -> Limits {
        Limits { deadline: Duration::from_millis(deadline_ms), ..Limits::default() }
    }

    #[test]
    fn limits_of_a_recording_are_capped_as_the_host_caps_those_of_a_plugin() {
        let limits = |recorded: &Limits, flags: &[&str]| {
            let (limits, capped) = limits(recorded, &caps(flags));
            (limits, capped.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let hostile = Limits { memory: u64::MAX, json_depth: usize::MAX, ..recorded(u64::MAX) };
        let (capped, said) = limits(&hostile, &[]);
        assert_eq!((capped.memory, capped.deadline, capped.json_depth), (256 << 20, Duration::from_secs(10), 200));
        let flags = [
            "memory at 256Mi (--max-memory)",
            "deadline at 10s (--max-deadline)",
            "jsonDepth at 200 (--max-json-depth)",
        ];
        assert_eq!(said, flags);
        let (raised, said) = limits(&hostile, &["--max-memory=1Gi", "--max-deadline=1m"]);
        assert_eq!((raised.memory, raised.deadline, said.len()), (1 << 30, Duration::from_mins(1), 3));
        assert_eq!(limits(&recorded(1000), &[]), (Limits { deadline: DEADLINE, ..Limits::default() }, Vec::new()));
        let (short, said) = limits(&recorded(1000), &["--max-deadline=2s"]);
        assert_eq!((short.deadline, said.len()), (Duration::from_secs(2), 0));
    }
}
