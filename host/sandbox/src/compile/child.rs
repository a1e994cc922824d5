//! The compiling child: reads a component, and writes it compiled.

use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use wasmtime::wasmparser::{Parser, Payload};

use super::confine::confine;
use super::{Bounds, CPU_VARIABLE, ChildMessage, KEY_VARIABLE, MEMORY_VARIABLE, Refusal, memory};
use crate::{engine, link};

/// Main function of the compiling child: reads the component on standard input, writes the compiled file to standard
/// output and messages to standard error.
pub fn child_main() -> ExitCode {
    let number = |variable| std::env::var(variable).ok().and_then(|number| number.parse().ok());
    let bounds = Bounds {
        memory: number(MEMORY_VARIABLE).unwrap_or(memory::MOST),
        cpu: number(CPU_VARIABLE).map_or(Bounds::CPU, Duration::from_secs),
    };
    let result = confine(bounds).map_err(unable).and_then(|confined| {
        if let Err(why) = confined {
            say(&ChildMessage::Unconfined(why));
        }
        check_key(std::env::var(KEY_VARIABLE).ok().as_deref())?;
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).map_err(unable)?;
        let compiled = compile(&bytes)?;
        io::stdout().lock().write_all(&compiled).map_err(unable)
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(refusal) => {
            say(&ChildMessage::Refused(refusal));
            ExitCode::FAILURE
        }
    }
}

/// Refuses a host whose engines differ from this child's.
fn check_key(host: Option<&str>) -> Result<(), Refusal> {
    let own = engine::key();
    match host {
        Some(host) if host != own => Err(Refusal::Unable(format!(
            "this compiler is of another build than the host ({own}, not {host}): install both from one image or one build"
        ))),
        _ => Ok(()),
    }
}

fn say(said: &ChildMessage) {
    let mut stderr = io::stderr().lock();
    // A failure cannot be reported anywhere.
    let _ = serde_json::to_writer(&mut stderr, said).and_then(|()| writeln!(stderr).map_err(serde_json::Error::io));
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn unable(error: impl ToString) -> Refusal {
    Refusal::Unable(error.to_string())
}

fn compile(bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
    let damaged = |error: String| Refusal::NotAComponent(format!("the component is damaged or cut off: {error}"));
    let exports = exports(bytes).map_err(|error| damaged(error.to_string()))?;
    link::version_of(exports.iter().map(String::as_str)).map_err(Refusal::UnsupportedContract)?;
    let engine = engine::for_compiling().map_err(unable)?;
    engine.precompile_component(bytes).map_err(|error| Refusal::Compile(format!("{error:#}")))
}

/// Names of the component's own exports, without those of nested components.
fn exports(bytes: &[u8]) -> wasmtime::wasmparser::Result<Vec<String>> {
    let mut names = Vec::new();
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    names.push(export?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiler_of_another_build_than_the_host_refuses_to_compile() {
        assert!(check_key(Some(&engine::key())).is_ok());
        let Err(Refusal::Unable(message)) = check_key(Some("0.0.9-c0ffee")) else { panic!("it compiles") };
        assert!(message.contains("0.0.9-c0ffee"), "{message}");
    }
}
