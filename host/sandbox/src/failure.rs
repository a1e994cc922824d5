//! Maps wasmtime's errors to [`CallFailure`]: why a call ended without a response.

use std::time::Instant;

use wasmtime::{Error, FrameInfo, Trap, WasmBacktrace};
use windlass_core::contract::{CallFailure, Level, Note};
use windlass_core::value::line::{is_unprintable, one_line};

use crate::limiter::Limiter;
use crate::wasi::Exit;

/// The guest called an unsupported import.
#[derive(Debug, thiserror::Error)]
#[error("import {0} is not supported")]
pub(crate) struct UnsupportedImport(pub(crate) String);

/// Number of guest functions in a trap's message, innermost first.
const FRAMES: usize = 3;

/// Maximum length of a function's name, and of any text from wasmtime, in a message, in characters.
const TEXT: usize = 300;

/// The epoch callback found that the deadline has passed.
#[derive(Debug, thiserror::Error)]
#[error("deadline reached at {0:?}")]
pub(crate) struct DeadlineReached(pub(crate) Instant);

/// The stage that a call had reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Instantiation, including start functions.
    Start,
    /// The exported function: lowering its arguments, running it, lifting its result.
    Call,
}

/// Returns the failure for an error of wasmtime.
pub(crate) fn classify(error: &Error, stage: Stage, limiter: &Limiter) -> CallFailure {
    let limits = &limiter.limits;
    if error.is::<DeadlineReached>() {
        return CallFailure::Deadline(limits.deadline);
    }
    if let Some(UnsupportedImport(name)) = error.downcast_ref() {
        return CallFailure::UnsupportedImport(name.clone());
    }
    if let Some(refused) = &limiter.refused {
        // Whatever the guest did after a rejected allocation (trap, abort, exit), the rejection was the cause.
        return refused.clone();
    }
    if error.is::<Exit>() {
        return CallFailure::Exit(None);
    }
    let in_guest = error.downcast_ref::<WasmBacktrace>();
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return match trap {
            Trap::StackOverflow => CallFailure::StackOverflow,
            trap => {
                let name = trap.to_string();
                CallFailure::Trap(with_frames(name.strip_prefix("wasm trap: ").unwrap_or(&name), in_guest))
            }
        };
    }
    let message = cut(&error.root_cause().to_string());
    match (in_guest, stage) {
        // An error of a host function, or of the arguments that the guest passed to it.
        (Some(_), _) => CallFailure::Trap(with_frames(&message, in_guest)),
        // The error types of this case and the next one are private in wasmtime; tests detect changes of the messages.
        (None, Stage::Start) if message.contains("instance count too high") => CallFailure::Instances(limits.instances),
        (None, Stage::Start) => CallFailure::Host(message),
        (None, Stage::Call) if message.contains("fuel allocated for hostcalls") => {
            CallFailure::ResponseTooLarge(limits.response_bytes)
        }
        (None, Stage::Call) => CallFailure::Malformed(message),
    }
}

fn with_frames(message: &str, backtrace: Option<&WasmBacktrace>) -> String {
    let frames = backtrace.map(WasmBacktrace::frames).unwrap_or_default();
    let names: Vec<String> = frames.iter().filter_map(name_of).take(FRAMES).collect();
    if names.is_empty() { message.to_owned() } else { format!("{message} in {}", names.join(" < ")) }
}

/// The function's name as its source has it, if the component has names.
fn name_of(frame: &FrameInfo) -> Option<String> {
    Some(cut(&format!("{:#}", rustc_demangle::demangle(frame.func_name()?))))
}

/// Returns the log line with the whole stack of a trap or a stack overflow, innermost function first, as it is too long for a
/// message. Returns `None` if the component has no function names. wasmtime keeps the 20 innermost functions.
pub(crate) fn stack_of(error: &Error, failure: &CallFailure) -> Option<Note> {
    if !matches!(failure, CallFailure::Trap(_) | CallFailure::StackOverflow) {
        return None;
    }
    let frames = error.downcast_ref::<WasmBacktrace>()?.frames();
    if frames.iter().all(|frame| frame.func_name().is_none()) {
        return None;
    }
    let line = |frame| {
        name_of(frame).map_or_else(|| format!("at function {}", frame.func_index()), |name| format!("at {name}"))
    };
    let stack = frames.iter().map(line).collect::<Vec<_>>().join("\n");
    let fields = vec![("stack".to_owned(), stack)];
    Some(Note::Log { level: Level::Error, message: "stack of the trap".to_owned(), fields })
}

/// Truncates a text and replaces characters that are not printed. Guests choose function names and some messages, which appear in
/// conditions and log lines, where each must stay on one line.
pub(crate) fn cut(text: &str) -> String {
    let more = if text.chars().nth(TEXT).is_some() { "…" } else { "" };
    let plain = text.chars().take(TEXT).map(|c| if is_unprintable(c) { char::REPLACEMENT_CHARACTER } else { c });
    plain.chain(more.chars()).collect()
}

/// Adds the guest's last reported error to a trap or an exit, because a trap's own message does not contain the message
/// of a panic. Other failures need no explanation.
pub(crate) fn explained(failure: CallFailure, last_error: Option<&str>) -> CallFailure {
    match (failure, last_error.map(escaped)) {
        (CallFailure::Trap(message), Some(said)) => CallFailure::Trap(format!("{said} ({message})")),
        (CallFailure::Exit(_), message) => CallFailure::Exit(message),
        (failure, _) => failure,
    }
}

/// Like [`cut`], but more readable: escapes characters that are not printed.
fn escaped(text: &str) -> String {
    let (end, _) = text.char_indices().nth(TEXT).unwrap_or((text.len(), ' '));
    let plain = one_line(text.get(..end).unwrap_or_default());
    // A character may have become several by escaping.
    let is_cut = text.chars().nth(TEXT).is_some() || plain.chars().nth(TEXT).is_some();
    let more = if is_cut { "…" } else { "" };
    cut(&plain).trim_end_matches('…').to_owned() + more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_error_of_a_guest_precedes_its_trap_in_one_line_of_bounded_length() {
        let trap = || CallFailure::Trap("unreachable".to_owned());
        assert_eq!(explained(trap(), None), trap());
        let message = |last: &str| explained(trap(), Some(last)).to_string();
        assert_eq!(
            message("panicked at src/lib.rs:1:2:\nboom"),
            "trap: panicked at src/lib.rs:1:2: boom (unreachable)"
        );
        assert_eq!(message("\u{1b}[2J\u{202e}"), r"trap: \u{1b}[2J\u{202e} (unreachable)");
        assert!(message(&"ö".repeat(5000)).chars().count() < TEXT + 40);
        assert!(message(&"\0".repeat(5000)).chars().count() < TEXT + 40);
        // Recordings mask the beginning of a value where a mark shows that the text was cut.
        let longer_by_escapes = "\0".repeat(30) + &"x".repeat(TEXT - 40);
        assert!(message(&longer_by_escapes).contains("x… (unreachable)"), "{}", message(&longer_by_escapes));
        let exit = explained(CallFailure::Exit(None), Some("panic: boom"));
        assert_eq!(exit, CallFailure::Exit(Some("panic: boom".to_owned())));
        let deadline = CallFailure::Deadline(std::time::Duration::ZERO);
        assert_eq!(explained(deadline.clone(), Some("boom")), deadline);
    }

    #[test]
    fn name_from_a_guest_is_one_line_of_bounded_length() {
        assert_eq!(cut("plain, and wörds"), "plain, and wörds");
        assert_eq!(cut("a\n\u{1b}[2Jb"), "a\u{fffd}\u{fffd}[2Jb");
        assert_eq!(cut(&"ö".repeat(TEXT + 1)), format!("{}…", "ö".repeat(TEXT)));
    }
}
