//! Why a component is not loaded, or a call has no response.

/// Why a call has no response. The host determines the cause itself, without relying on the guest's messages.
///
/// The names that strum derives are external: telemetry has them as `error.type`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[cfg_attr(test, derive(strum::VariantNames))]
pub enum CallFailure {
    /// The call exceeded this deadline, which includes host calls.
    #[error("no response within {} ms", .0.as_millis())]
    Deadline(std::time::Duration),
    /// The guest exceeded its memory limit. The limit, in bytes.
    #[error("memory limit of {0} bytes exceeded")]
    Memory(u64),
    /// The guest exceeded its limit of table elements. The limit.
    #[error("limit of {0} table elements exceeded")]
    TableElements(usize),
    /// The component has more core instances than this limit.
    #[error("the component has more than {0} core instances")]
    Instances(usize),
    /// The guest's stack overflowed.
    #[error("stack overflow")]
    StackOverflow,
    /// The guest trapped: the last error that it reported, the trap's name and, where known, the innermost guest functions.
    #[error("trap: {0}")]
    Trap(String),
    /// The guest called this unsupported import.
    #[error("unsupported import {} was called{}", .0, what_lacks(.0))]
    #[strum(serialize = "unknown_import")]
    UnsupportedImport(String),
    /// The guest exited through `wasi:cli/exit`, perhaps after it reported this error.
    #[error("the plugin called exit{}", .0.as_ref().map(|message| format!(": {message}")).unwrap_or_default())]
    Exit(Option<String>),
    /// The request exceeds its size limit.
    #[error("the request has {size} bytes, more than the limit of {limit}")]
    RequestTooLarge {
        /// The request's size, in bytes.
        size: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The response exceeds its size limit, in bytes.
    #[error("the response has more than the limit of {0} bytes")]
    ResponseTooLarge(u64),
    /// The response violates the component model in this way, for example with text that is not UTF-8.
    #[error("malformed response: {0}")]
    Malformed(String),
    /// The host lacks the resources for the call, as described.
    #[error("the host could not run the call: {0}")]
    Host(String),
}

/// What a plugin lacks if it calls this import; empty if the name of the import does not show it.
fn what_lacks(import: &str) -> &'static str {
    let is_of_network = ["wasi:sockets/", "wasi:http/"].iter().any(|package| import.starts_with(package));
    if is_of_network { ": a plugin has no network" } else { "" }
}

/// Why a component cannot be loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadFailure {
    /// The bytes are not a component, but for example a core module: their description, and advice for the user.
    #[error("not a component: {0}")]
    NotAComponent(String),
    /// The component exports another version of the contract, or none: the message, with what it exports.
    #[error("{0}")]
    UnsupportedContract(String),
    /// The component exceeds the size limit for compilation.
    #[error("the component has {size} bytes, more than the limit of {limit}")]
    TooLarge {
        /// The component's size, in bytes.
        size: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// The compiler rejected the component, with this message.
    #[error("compilation failed: {0}")]
    Compile(String),
    /// The compiler returned no usable result, as described: it did not start, ran too long or crashed, or this host cannot use
    /// its output.
    #[error("compilation failed: {0}")]
    Compiler(String),
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
    /// The cache folder cannot be used, for this reason.
    #[error("the compiled component cannot be stored: {0}")]
    Cache(String),
    /// `describe` failed.
    #[error("describe failed: {0}")]
    Describe(CallFailure),
}

impl LoadFailure {
    /// The failure while the host is stopping, when it compiles nothing more.
    pub fn stopping() -> Self {
        Self::Compiler("the host is stopping".to_owned())
    }

    /// Returns true if the component itself is the cause, so that it would fail again. Other failures may be caused by
    /// the machine, and may pass.
    pub fn is_of_component(&self) -> bool {
        match self {
            Self::NotAComponent(_) | Self::UnsupportedContract(_) | Self::TooLarge { .. } | Self::Compile(_) => true,
            Self::Compiler(_) | Self::Interrupted { .. } | Self::Cache(_) => false,
            Self::Describe(failure) => match failure {
                CallFailure::Memory(_)
                | CallFailure::TableElements(_)
                | CallFailure::Instances(_)
                | CallFailure::StackOverflow
                | CallFailure::Trap(_)
                | CallFailure::UnsupportedImport(_)
                | CallFailure::Exit(_)
                | CallFailure::RequestTooLarge { .. }
                | CallFailure::ResponseTooLarge(_)
                | CallFailure::Malformed(_) => true,
                // On a busy machine, any call can exceed its deadline.
                CallFailure::Deadline(_) | CallFailure::Host(_) => false,
            },
        }
    }
}
