//! The C library's heap: all threads of a host share it, and what is unused goes back to the system.

use std::time::Duration;

/// Time between two returns of unused memory.
const REST: Duration = Duration::from_mins(1);

/// Lets all threads that start from now on use one heap.
///
/// Objects are freed by other threads than those that allocated them. With a heap for each thread, glibc's default, the holes grow for half
/// an hour while parents change. The environment variable `GLIBC_TUNABLES` (glibc's manual, "Tunables") takes precedence, so that users can
/// choose other settings.
pub fn share() {
    if std::env::var_os("GLIBC_TUNABLES").is_none() {
        glibc::share();
    }
}

/// Returns unused memory once a minute, as long as the future is polled: bursts enlarge the heap, and what stays in use afterwards is
/// spread over it, so that glibc alone returns nothing.
pub async fn return_unused_now_and_then() {
    loop {
        tokio::time::sleep(REST).await;
        glibc::return_unused();
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code)]
mod glibc {
    /// Size of buffers that get memory of their own, and of unused memory at the heap's end that is returned at once. Both are fixed, because
    /// glibc raises them to the size of large buffers that were freed; at its initial 128 KiB, it would request and return memory all the
    /// time.
    const LARGE: libc::c_int = 1024 * 1024;

    pub fn share() {
        for (setting, value) in
            [(libc::M_ARENA_MAX, 1), (libc::M_MMAP_THRESHOLD, LARGE), (libc::M_TRIM_THRESHOLD, 2 * LARGE)]
        {
            // SAFETY: mallopt locks the heap, and changes nothing about memory that is in use.
            let _ = unsafe { libc::mallopt(setting, value) };
        }
    }

    pub fn return_unused() {
        // SAFETY: malloc_trim locks the heap, and returns only pages without memory that is in use.
        let _ = unsafe { libc::malloc_trim(0) };
    }
}

/// Other C libraries have other heaps, with settings of their own.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod glibc {
    pub fn share() {}

    pub fn return_unused() {}
}

#[cfg(test)]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod tests {
    use super::*;

    /// Anonymous memory of this process in KiB. Tests beside this one change it by less than half of what this test allocates.
    fn anonymous() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").expect("the process's status");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("the anonymous memory");
        line.trim_end_matches("kB").trim().parse().expect("a number")
    }

    #[test]
    fn memory_between_what_stays_in_use_is_returned() {
        const PIECE: usize = 64 * 1024;
        let mut pieces: Vec<Option<Vec<u8>>> = (0..4096).map(|_| Some(vec![1; PIECE])).collect();
        pieces.iter_mut().enumerate().for_each(|(at, piece)| _ = piece.take_if(|_| at % 16 != 0));
        let before = anonymous();
        glibc::return_unused();
        let returned = before.saturating_sub(anonymous());
        assert!(returned > 4096 * PIECE / 1024 / 2, "{returned} KiB of {before} KiB were returned");
        drop(pieces);
    }
}
