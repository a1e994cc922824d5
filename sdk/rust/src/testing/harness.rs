//! Asks the host's own code about a call (`windlass harness`), so that a test passes nothing that the host refuses.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    fmt::Display,
    io::Write as _,
    process::{Command, Output, Stdio},
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};

use super::written;
use crate::raw::{self, Phase, Readiness, windlass::plugin::schedule::Problem};

/// What the host makes of a call.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Answer {
    refused: Option<String>,
    /// What the schema does not allow in the parent: the host does not call the plugin with it.
    pub(super) invalid: Option<String>,
    parent: Option<Box<RawValue>>,
    children: Vec<Told>,
    related: BTreeMap<String, Vec<Told>>,
}

#[derive(Deserialize)]
#[serde(tag = "state", content = "message", rename_all = "lowercase")]
enum Told {
    Ready,
    Progressing(String),
    Failed(String),
    Unknown,
}

/// Children, parent, status and config are as the plugin got or returned them: the host reads numbers and repeated names itself.
#[derive(Serialize)]
struct Question<'a> {
    descriptor: Value,
    phase: &'static str,
    parent: &'a RawValue,
    children: Vec<&'a RawValue>,
    related: BTreeMap<&'a str, Vec<&'a RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<Returned<'a>>,
}

#[derive(Serialize)]
struct Returned<'a> {
    children: Vec<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a RawValue>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Asks about a call: before it, without a response, or after it.
///
/// # Errors
///
/// The sentence with which the host refuses the descriptor, the config or the response; or why it cannot be asked.
pub(super) fn ask(
    descriptor: raw::Descriptor,
    request: &raw::Request,
    response: Option<&raw::Response>,
) -> Result<Answer, String> {
    let related = request.related.iter().map(|related| Ok((&*related.id, objects(&related.objects)?)));
    let question = Question {
        descriptor: written::descriptor(descriptor),
        phase: if matches!(request.phase, Phase::Sync) { "sync" } else { "finalize" },
        parent: json(&request.parent)?,
        children: objects(&request.children)?,
        related: related.collect::<Result<_, String>>()?,
        config: request.config.as_deref().map(json).transpose()?,
        response: response.map(Returned::of).transpose()?,
    };
    let question = serde_json::to_vec(&question).map_err(failed)?;
    let answer: Answer = serde_json::from_slice(&run(&program(), &question)?).map_err(failed)?;
    match answer.refused {
        Some(refused) => Err(refused),
        None => Ok(answer),
    }
}

/// The host's answer about a schedule, as the interface `schedule` gives it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Scheduled {
    Time(Option<u64>),
    Schedule(String),
    TimeZone(String),
}

pub(crate) fn next(schedule: &str, time_zone: &str, after: u64) -> Result<u64, Problem> {
    #[allow(clippy::expect_used, reason = "a test without an answer fails")]
    Ok(scheduled("next", schedule, time_zone, after)?.expect("a next time, or a problem"))
}

pub(crate) fn previous(schedule: &str, time_zone: &str, at: u64) -> Result<Option<u64>, Problem> {
    scheduled("previous", schedule, time_zone, at)
}

/// Asks about a schedule. A plugin calls this, so it cannot return why the host cannot be asked: the test panics with it.
#[allow(clippy::panic, reason = "a test without an answer fails")]
fn scheduled(question: &str, schedule: &str, time_zone: &str, time: u64) -> Result<Option<u64>, Problem> {
    let question = json!({ question: { "schedule": schedule, "timeZone": time_zone, "time": time } });
    let answer = run(&program(), question.to_string().as_bytes());
    let answer = answer.and_then(|answer| serde_json::from_slice(&answer).map_err(failed));
    match answer.unwrap_or_else(|why| panic!("{why}")) {
        Scheduled::Time(time) => Ok(time),
        Scheduled::Schedule(message) => Err(Problem::Schedule(message)),
        Scheduled::TimeZone(message) => Err(Problem::TimeZone(message)),
    }
}

impl<'a> Returned<'a> {
    fn of(response: &'a raw::Response) -> Result<Self, String> {
        Ok(Self {
            children: response.children.iter().map(|child| json(&child.object)).collect::<Result<_, _>>()?,
            status: response.status.as_deref().map(json).transpose()?,
            others: written::response(response),
        })
    }
}

fn objects(objects: &[raw::Observed]) -> Result<Vec<&RawValue>, String> {
    objects.iter().map(|object| json(&object.object)).collect()
}

fn json(bytes: &[u8]) -> Result<&RawValue, String> {
    serde_json::from_slice(bytes).map_err(failed)
}

fn failed(why: impl Display) -> String {
    format!("windlass harness: {why}")
}

fn program() -> OsString {
    env::var_os("WINDLASS").unwrap_or_else(|| "windlass".into())
}

fn run(program: &OsStr, question: &[u8]) -> Result<Vec<u8>, String> {
    let mut command = Command::new(program);
    command.arg("harness").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut harness = command.spawn().map_err(|error| {
        let program = program.display();
        format!(
            "a test needs the program windlass, which checks responses as the host does: run `cargo install --locked --path host/cli` in \
             the repository of Windlass, or set the environment variable WINDLASS to its path ({program}: {error})"
        )
    })?;
    // A program that does not read the question ends with a message.
    let _ = harness.stdin.take().map(|mut input| input.write_all(question));
    let Output { status, stdout, stderr } = harness.wait_with_output().map_err(failed)?;
    if status.success() { Ok(stdout) } else { Err(failed(String::from_utf8_lossy(&stderr).trim())) }
}

impl Answer {
    /// Completes a request as the host does: with the defaults of the parent, and the readiness of objects that the test has not set.
    pub(super) fn complete(self, request: &mut raw::Request) {
        let Self { refused: _, invalid: _, parent, children, mut related } = self;
        if let Some(parent) = parent {
            request.parent = parent.get().as_bytes().to_vec();
        }
        set(&mut request.children, children);
        for one in &mut request.related {
            set(&mut one.objects, related.remove(&one.id).unwrap_or_default());
        }
    }
}

fn set(objects: &mut [raw::Observed], told: Vec<Told>) {
    for (object, told) in objects.iter_mut().zip(told).filter(|(object, _)| object.readiness == Readiness::Unknown) {
        object.readiness = match told {
            Told::Ready => Readiness::Ready,
            Told::Progressing(why) => Readiness::Progressing(why),
            Told::Failed(why) => Readiness::Failed(why),
            Told::Unknown => Readiness::Unknown,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::{program, run};

    #[test]
    fn missing_program_is_an_error_that_says_how_to_get_it() {
        let error = run("no-windlass".as_ref(), b"{}").expect_err("no such program");
        let how = "run `cargo install --locked --path host/cli` in the repository of Windlass, or set the environment variable \
                   WINDLASS to its path (no-windlass: ";
        assert!(error.contains(how), "{error}");
    }

    #[test]
    fn question_that_the_host_does_not_understand_is_an_error_with_its_message() {
        let error = run(&program(), b"{}").expect_err("no call");
        assert!(error.starts_with("windlass harness: error: standard input is no call"), "{error}");
    }
}
