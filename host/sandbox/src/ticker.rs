//! The epoch ticker: one thread that interrupts guests every few milliseconds while calls run, and sleeps otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use wasmtime::Engine;

/// Interval between ticks: a deadline is noticed at most this late. Each tick costs a running guest one call into the
/// host.
const TICK: Duration = Duration::from_millis(5);

/// Number of ticks without a call before the thread goes to sleep: a busy host must not wake the thread for every call,
/// and a host with batched work must not wake it for every tick in between.
const LINGER: u32 = 4;

/// Ticks the epochs of its engines while calls run.
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    running: AtomicUsize,
    asleep: AtomicBool,
    stop: Mutex<bool>,
    wake: Condvar,
}

/// Keeps the epochs ticking until it is dropped.
pub(crate) struct Running<'a>(&'a Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Ticker {
    pub(crate) fn start(engines: Vec<Engine>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let ticked = shared.clone();
        let thread = std::thread::Builder::new()
            .name("epoch".to_owned())
            // The thread only counts, so it does not need the default reservation of 2 MiB.
            .stack_size(64 * 1024)
            .spawn(move || run(&ticked, &engines))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Starts the ticks for a call, until the result is dropped.
    pub(crate) fn enter(&self) -> Running<'_> {
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        // The ticker sets `asleep` before its last check of `running`, so at least one of the two threads sees the
        // other's write.
        if self.shared.asleep.load(Ordering::SeqCst) {
            // The ticker holds the lock until it waits, so this notification cannot fall between its check and its
            // sleep.
            drop(self.shared.stop.lock());
            self.shared.wake.notify_one();
        }
        Running(&self.shared)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        *self.shared.stop.lock() = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic, and an error could not be reported here.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, engines: &[Engine]) {
    let mut quiet = 0;
    let mut stop = shared.stop.lock();
    while !*stop {
        if quiet >= LINGER {
            shared.asleep.store(true, Ordering::SeqCst);
            while shared.running.load(Ordering::SeqCst) == 0 && !*stop {
                shared.wake.wait(&mut stop);
            }
            shared.asleep.store(false, Ordering::SeqCst);
            quiet = 0;
        } else {
            shared.wake.wait_for(&mut stop, TICK);
            engines.iter().for_each(Engine::increment_epoch);
            quiet = if shared.running.load(Ordering::SeqCst) == 0 { quiet + 1 } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits until the condition holds, however slow the machine is.
    fn until(condition: impl Fn() -> bool) {
        while !condition() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_ticker_sleeps_when_no_call_runs_and_wakes_for_the_next() {
        let ticker = Ticker::start(Vec::new()).unwrap();
        for _ in 0..3 {
            until(|| ticker.shared.asleep.load(Ordering::SeqCst));
            let running = ticker.enter();
            until(|| !ticker.shared.asleep.load(Ordering::SeqCst));
            drop(running);
        }
    }
}
