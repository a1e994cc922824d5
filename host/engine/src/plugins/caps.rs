//! The host's caps on `spec.limits`. A Plugin with a limit above a cap runs with the cap, so a restart with lower caps
//! stops no plugin.

use std::fmt;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use windlass_api::{ByteQuantity, positive};
use windlass_core::contract::{JSON_DEPTH_MAX, Limits};

/// Upper bounds of a Plugin's limits.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Caps on spec.limits")]
#[expect(clippy::struct_field_names, reason = "they are the names of the flags")]
pub struct Caps {
    /// Largest linear memory of a call, in bytes
    #[arg(long, env = "WINDLASS_MAX_MEMORY", default_value = "256Mi", value_parser = bytes, value_name = "BYTES")]
    max_memory: u64,
    /// Largest number of table elements of a call, 8 bytes each
    #[arg(long, env = "WINDLASS_MAX_TABLE_ELEMENTS", default_value_t = 4_000_000, value_name = "COUNT")]
    max_table_elements: usize,
    /// Largest number of core instances of a component
    #[arg(long, env = "WINDLASS_MAX_INSTANCES", default_value_t = 1000, value_name = "COUNT")]
    max_instances: usize,
    /// Longest wall time of a call, including host calls
    #[arg(long, env = "WINDLASS_MAX_DEADLINE", default_value = "10s", value_parser = time, value_name = "TIME")]
    max_deadline: Duration,
    /// Largest request to a plugin, in bytes
    #[arg(long, env = "WINDLASS_MAX_REQUEST_BYTES", default_value = "16Mi", value_parser = bytes, value_name = "BYTES")]
    max_request_bytes: u64,
    /// Largest response of a plugin, in bytes
    #[arg(long, env = "WINDLASS_MAX_RESPONSE_BYTES", default_value = "16Mi", value_parser = bytes, value_name = "BYTES")]
    max_response_bytes: u64,
    /// Largest number of children in a response
    #[arg(long, env = "WINDLASS_MAX_CHILDREN", default_value_t = 10_000, value_name = "COUNT")]
    max_children: usize,
    /// Largest size of the log of a call, in bytes
    #[arg(long, env = "WINDLASS_MAX_LOG_BYTES", default_value = "1Mi", value_parser = bytes, value_name = "BYTES")]
    max_log_bytes: u64,
    /// Largest number of events in a response
    #[arg(long, env = "WINDLASS_MAX_EVENTS", default_value_t = 64, value_name = "COUNT")]
    max_events: usize,
    /// Largest number of requirements in a response
    #[arg(long, env = "WINDLASS_MAX_REQUIREMENTS", default_value_t = 256, value_name = "COUNT")]
    max_requirements: usize,
    /// Deepest nesting of a JSON document in a response
    #[arg(
        long, env = "WINDLASS_MAX_JSON_DEPTH", default_value_t = JSON_DEPTH_MAX.into(), value_name = "COUNT",
        value_parser = RangedU64ValueParser::<usize>::new().range(2..=JSON_DEPTH_MAX.into())
    )]
    max_json_depth: usize,
}

impl Caps {
    /// The caps without flags: those of the environment, or else the defaults.
    ///
    /// # Errors
    /// If a variable has an invalid value.
    pub fn without_flags() -> Result<Self, clap::Error> {
        #[derive(clap::Parser)]
        struct Flags {
            #[command(flatten)]
            caps: Caps,
        }
        <Flags as clap::Parser>::try_parse_from(["windlass"]).map(|flags| flags.caps)
    }
}

/// A limit that was lowered to the host's cap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capped {
    limit: &'static str,
    cap: String,
}

impl fmt::Display for Capped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} (--max-{})", self.limit, self.cap, kebab(self.limit))
    }
}

impl Caps {
    /// The Plugin's limits, lowered to the caps, and the limits that were lowered.
    pub fn clamp(&self, wanted: &Limits) -> (Limits, Vec<Capped>) {
        let mut capped = Vec::new();
        let (to, plain) = (&mut capped, |count: usize| count.to_string());
        let max_log_bytes = usize::try_from(self.max_log_bytes).unwrap_or(usize::MAX);
        let limits = Limits {
            memory: least("memory", wanted.memory, self.max_memory, in_bytes, to),
            table_elements: least("tableElements", wanted.table_elements, self.max_table_elements, plain, to),
            instances: least("instances", wanted.instances, self.max_instances, plain, to),
            deadline: least("deadline", wanted.deadline, self.max_deadline, |time| format!("{time:?}"), to),
            request_bytes: least("requestBytes", wanted.request_bytes, self.max_request_bytes, in_bytes, to),
            response_bytes: least("responseBytes", wanted.response_bytes, self.max_response_bytes, in_bytes, to),
            children: least("children", wanted.children, self.max_children, plain, to),
            log_bytes: least("logBytes", wanted.log_bytes, max_log_bytes, |size| in_bytes(size as u64), to),
            events: least("events", wanted.events, self.max_events, plain, to),
            requirements: least("requirements", wanted.requirements, self.max_requirements, plain, to),
            json_depth: least("jsonDepth", wanted.json_depth, self.max_json_depth, plain, to),
        };
        (limits, capped)
    }

    /// Limits of `describe`, which runs before the Plugin of a component is known. They are raised with the caps,
    /// because a Plugin may need as much, and never lowered, because then no component could be loaded.
    pub fn describe(&self, least: &Limits) -> Limits {
        Limits {
            memory: least.memory.max(self.max_memory),
            table_elements: least.table_elements.max(self.max_table_elements),
            instances: least.instances.max(self.max_instances),
            deadline: least.deadline.max(self.max_deadline),
            ..least.clone()
        }
    }
}

fn least<T: Ord + Copy>(limit: &'static str, wanted: T, cap: T, say: impl Fn(T) -> String, to: &mut Vec<Capped>) -> T {
    if wanted <= cap {
        return wanted;
    }
    to.push(Capped { limit, cap: say(cap) });
    cap
}

fn in_bytes(size: u64) -> String {
    ByteQuantity::from(size).to_string()
}

/// Converts `requestBytes` to `request-bytes`.
fn kebab(name: &str) -> String {
    let dash = |letter: &char| letter.is_ascii_uppercase().then_some('-');
    name.chars().flat_map(|letter| dash(&letter).into_iter().chain([letter.to_ascii_lowercase()])).collect()
}

/// Parses a size as Kubernetes writes it (`128Mi`), in bytes.
///
/// # Errors
/// If the text is no quantity of bytes, or too large.
pub fn bytes(text: &str) -> Result<u64, String> {
    text.parse::<ByteQuantity>()?.bytes()
}

/// Parses a time greater than zero.
///
/// # Errors
/// If the text is no such time.
pub fn time(text: &str) -> Result<Duration, String> {
    let time = text.parse().map_err(|error| format!("{text:?} is no time; write it as in 10s: {error}"))?;
    positive(&time)
}

/// The caps by these flags of `windlass run`.
#[cfg(test)]
pub fn of_flags(flags: &[&str]) -> Result<Caps, clap::Error> {
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        caps: Caps,
    }
    Flags::try_parse_from(std::iter::once(&"run").chain(flags)).map(|flags| flags.caps)
}

#[cfg(test)]
mod tests {
    use clap::Args as _;
    use serde_json::{Value, json};

    use super::*;
    use windlass_api::LimitsSpec;

    /// Limits above any cap.
    fn everything() -> Limits {
        Limits {
            memory: u64::MAX,
            table_elements: usize::MAX,
            instances: usize::MAX,
            deadline: Duration::MAX,
            request_bytes: u64::MAX,
            response_bytes: u64::MAX,
            children: usize::MAX,
            log_bytes: usize::MAX,
            events: usize::MAX,
            requirements: usize::MAX,
            json_depth: usize::MAX,
        }
    }

    fn messages(capped: &[Capped]) -> Vec<String> {
        capped.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn default_limits_of_the_contract_are_below_all_caps() {
        let caps = of_flags(&[]).expect("defaults");
        assert_eq!(caps.clamp(&Limits::default()), (Limits::default(), Vec::new()));
    }

    #[test]
    fn limit_above_its_cap_is_lowered_to_the_cap_and_the_flag_is_named() {
        let caps = of_flags(&["--max-memory", "96Mi", "--max-deadline", "1500ms", "--max-events=3"]).expect("flags");
        let (limits, capped) = caps.clamp(&everything());
        let expected = [
            "memory at 96Mi (--max-memory)",
            "tableElements at 4000000 (--max-table-elements)",
            "instances at 1000 (--max-instances)",
            "deadline at 1.5s (--max-deadline)",
            "requestBytes at 16Mi (--max-request-bytes)",
            "responseBytes at 16Mi (--max-response-bytes)",
            "children at 10000 (--max-children)",
            "logBytes at 1Mi (--max-log-bytes)",
            "events at 3 (--max-events)",
            "requirements at 256 (--max-requirements)",
            "jsonDepth at 200 (--max-json-depth)",
        ];
        assert_eq!(messages(&capped), expected);
        assert_eq!(caps.clamp(&limits), (limits.clone(), Vec::new()), "a limit equal to its cap is allowed");
        let requested = Limits { memory: 97 << 20, deadline: Duration::from_secs(1), ..Limits::default() };
        let (limits, capped) = caps.clamp(&requested);
        assert_eq!((limits.memory, limits.deadline, limits.events), (96 << 20, requested.deadline, 3));
        assert_eq!(messages(&capped), ["memory at 96Mi (--max-memory)", "events at 3 (--max-events)"]);
    }

    #[test]
    fn every_flag_that_a_message_names_exists_and_can_be_set_by_the_environment() {
        let command = Caps::augment_args(clap::Command::new("run"));
        let (_, capped) = of_flags(&[]).expect("defaults").clamp(&everything());
        assert_eq!(command.get_arguments().count(), capped.len());
        for (argument, message) in command.get_arguments().zip(messages(&capped)) {
            let flag = argument.get_long().expect("a flag");
            assert!(message.ends_with(&format!("(--{flag})")), "--{flag}: {message}");
            let variable = format!("WINDLASS_{}", flag.to_uppercase().replace('-', "_"));
            assert_eq!(argument.get_env().expect("a variable"), &*variable);
        }
    }

    #[test]
    fn every_limit_is_documented_with_its_default_and_its_cap() {
        let page = include_str!("../../../../docs/limits.md");
        let (_, capped) = of_flags(&[]).expect("defaults").clamp(&everything());
        for Capped { limit, cap } in &capped {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{limit}` |")));
            let row = row.unwrap_or_else(|| panic!("docs/limits.md has no row for {limit}"));
            assert!(row.contains(&format!("| `--max-{}` {cap} |", kebab(limit))), "{row}");
            let given = serde_json::from_value::<LimitsSpec>(json!({*limit: default_in(row)})).expect("a limit");
            assert_eq!(given.resolve(), Ok(Limits::default()), "{row}");
        }
    }

    /// The second column of a row, as JSON.
    fn default_in(row: &str) -> Value {
        let cell = row.split('|').nth(2).expect("a default").trim();
        cell.parse::<i32>().map_or_else(|_| json!(cell), |number| json!(number))
    }

    #[test]
    fn invalid_caps_are_rejected_at_the_start() {
        for bad in ["--max-memory=much", "--max-deadline=0s", "--max-deadline=10", "--max-json-depth=201"] {
            assert!(of_flags(&[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn describe_may_use_the_caps_and_at_least_its_own_minimum() {
        let least = Limits { memory: 256 << 20, deadline: Duration::from_secs(10), ..Limits::default() };
        let describe = |flags: &[&str]| of_flags(flags).expect("flags").describe(&least);
        assert_eq!(describe(&["--max-memory=1Gi"]).memory, 1 << 30);
        let low = describe(&["--max-memory=1Mi", "--max-deadline=1ms", "--max-instances=1"]);
        assert_eq!((low.memory, low.deadline, low.instances), (least.memory, least.deadline, least.instances));
    }
}
