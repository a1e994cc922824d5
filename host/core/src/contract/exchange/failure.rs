//! Why a component is not loaded, or a call has no response.

/// Why a call has no response. The host determines the cause itself, without relying on the guest's messages.
///
/// The names that strum derives are external: telemetry has them as `error.type`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[cfg_attr(test, derive(strum::VariantNames))]
pub enum CallFailure {
    /// The call exceeded its deadline, which includes host calls.
    #[error("no response within {} ms", .limit.as_millis())]
    Deadline {
        /// The deadline.
        limit: std::time::Duration,
    },
    /// The guest exceeded its memory limit.
    #[error("memory limit of {limit} bytes exceeded")]
    Memory {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The guest exceeded its limit of table elements.
    #[error("limit of {limit} table elements exceeded")]
    TableElements {
        /// The limit, in elements.
        limit: usize,
    },
    /// The component has too many core instances.
    #[error("the component has more than {limit} core instances")]
    Instances {
        /// The limit.
        limit: usize,
    },
    /// The guest's stack overflowed.
    #[error("stack overflow")]
    StackOverflow,
    /// The guest trapped.
    #[error("trap: {message}")]
    Trap {
        /// The last error that the guest reported, the trap's name and, where known, the innermost guest functions.
        message: String,
    },
    /// The guest called an unsupported import.
    #[error("unsupported import {name} was called{}", what_lacks(.name))]
    #[strum(serialize = "unknown_import")]
    UnsupportedImport {
        /// The import.
        name: String,
    },
    /// The guest exited through `wasi:cli/exit`.
    #[error("the plugin called exit{}", .message.as_ref().map(|message| format!(": {message}")).unwrap_or_default())]
    Exit {
        /// The last error that the guest reported before, if any.
        message: Option<String>,
    },
    /// The request exceeds its size limit.
    #[error("the request has {size} bytes, more than the limit of {limit}")]
    RequestTooLarge {
        /// The request's size, in bytes.
        size: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The response exceeds its size limit.
    #[error("the response has more than the limit of {limit} bytes")]
    ResponseTooLarge {
        /// The limit, in bytes.
        limit: u64,
    },
    /// The response violates the component model, for example with text that is not UTF-8.
    #[error("malformed response: {message}")]
    Malformed {
        /// Description of the problem.
        message: String,
    },
    /// The host lacks the resources for the call.
    #[error("the host could not run the call: {message}")]
    Host {
        /// Description of the problem.
        message: String,
    },
}

/// What a plugin lacks if it calls this import; empty if the name of the import does not show it.
fn what_lacks(import: &str) -> &'static str {
    let is_of_network = ["wasi:sockets/", "wasi:http/"].iter().any(|package| import.starts_with(package));
    if is_of_network { ": a plugin has no network" } else { "" }
}

/// Why a component cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadFailure {
    /// The bytes are not a component, but for example a core module.
    #[error("not a component: {message}")]
    NotAComponent {
        /// Description of the bytes, and advice for the user.
        message: String,
    },
    /// The component exports another version of the contract, or none.
    #[error("no export windlass:plugin/reconciler of contract 0.1; found {found}")]
    UnsupportedContract {
        /// The exports of the component.
        found: String,
    },
    /// The component exceeds the size limit for compilation.
    #[error("the component has {size} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The component's size, in bytes.
        size: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The compiler rejected the component.
    #[error("compilation failed: {message}")]
    Compile {
        /// The compiler's message.
        message: String,
    },
    /// The compiler returned no usable result: it did not start, ran too long or crashed, or this host cannot use its
    /// output.
    #[error("compilation failed: {message}")]
    Compiler {
        /// Description of the failure.
        message: String,
    },
    /// The host ended during earlier attempts to compile the component, most likely because it ran out of memory.
    #[error(
        "compiling this component was cut off {attempts} time(s), because the host ended meanwhile, most likely for want of memory; \
         the next attempt is at {}. Give the host more memory, or bound the compiler with --compile-memory",
        jiff::Timestamp::from_second(i64::try_from(*.next).unwrap_or_default()).unwrap_or_default()
    )]
    Interrupted {
        /// Number of attempts.
        attempts: u32,
        /// Time of the next attempt, in seconds since 1970.
        next: u64,
        /// Time until the next attempt.
        wait: std::time::Duration,
    },
    /// The cache folder cannot be used.
    #[error("the compiled component cannot be stored: {message}")]
    Cache {
        /// Description of the failure.
        message: String,
    },
    /// `describe` failed.
    #[error("describe failed: {0}")]
    Describe(CallFailure),
}

impl LoadFailure {
    /// The failure while the host is stopping, when it compiles nothing more.
    pub fn stopping() -> Self {
        Self::Compiler { message: "the host is stopping".to_owned() }
    }

    /// Returns true if the component itself is the cause, so that it would fail again. Other failures may be caused by
    /// the machine, and may pass.
    pub fn is_of_component(&self) -> bool {
        match self {
            Self::NotAComponent { .. }
            | Self::UnsupportedContract { .. }
            | Self::TooLarge { .. }
            | Self::Compile { .. } => true,
            Self::Compiler { .. } | Self::Interrupted { .. } | Self::Cache { .. } => false,
            Self::Describe(failure) => match failure {
                CallFailure::Memory { .. }
                | CallFailure::TableElements { .. }
                | CallFailure::Instances { .. }
                | CallFailure::StackOverflow
                | CallFailure::Trap { .. }
                | CallFailure::UnsupportedImport { .. }
                | CallFailure::Exit { .. }
                | CallFailure::RequestTooLarge { .. }
                | CallFailure::ResponseTooLarge { .. }
                | CallFailure::Malformed { .. } => true,
                // On a busy machine, any call can exceed its deadline.
                CallFailure::Deadline { .. } | CallFailure::Host { .. } => false,
            },
        }
    }
}
