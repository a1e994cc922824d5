//! Work that blocks, beside the tasks of a runtime.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::{JoinError, spawn, spawn_blocking};

/// Whether the runtime of this task has one thread, as that of a simulation. Then the order of its tasks must depend neither on other
/// threads nor on how long something takes.
pub fn has_one_thread() -> bool {
    Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread
}

/// Runs work that blocks: files, compression, hashes. A runtime with several threads gives it to another thread. On a runtime of one
/// thread it runs as a task.
///
/// # Errors
/// If the work panics, or the runtime stops.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    if has_one_thread() { spawn(async { work() }).await } else { spawn_blocking(work).await }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    async fn runs_here() -> bool {
        blocking(|| thread::current().id()).await.expect("the work ends") == thread::current().id()
    }

    #[tokio::test]
    async fn work_that_blocks_runs_on_the_thread_of_a_runtime_that_has_one() {
        assert!(runs_here().await);
        assert!(blocking(|| panic!("as a test")).await.is_err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn work_that_blocks_runs_beside_the_threads_of_a_runtime_that_has_several() {
        assert!(!runs_here().await);
        assert!(blocking(|| panic!("as a test")).await.is_err());
    }
}
