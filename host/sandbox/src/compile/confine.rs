//! Confines the compiling child: it may compute within limits of memory and time, and use its three streams. It has no
//! access to files, network or other processes, even if a component exploits the compiler.

use std::io;

use rustix::process::{Resource, Rlimit, setpriority_process, setrlimit};

use super::Bounds;

/// Seconds of CPU time between the signal that ends this process and the signal that no process survives. The first
/// one shows which limit was exceeded; the second one has many causes.
const GRACE: u64 = 5;
/// Maximum size of a compiled file, in bytes.
const FILE: u64 = 1024 * 1024 * 1024;
/// Maximum number of open files.
const FILES: u64 = 16;

/// Confines this process permanently within these bounds. Call it before the process reads untrusted
/// input. The process must have no other threads.
///
/// The inner error is the reason why this machine cannot filter system calls. The component is then compiled
/// nevertheless, in a process with all permissions of the host's user.
///
/// # Errors
/// If the kernel rejects a limit or a setting that every Linux kernel of the last ten years supports.
pub fn confine(bounds: Bounds) -> io::Result<Result<(), String>> {
    // If memory runs out, the kernel kills this process before the host. If the file is not writable, the limits below
    // still apply.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    bound(bounds)?;
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, Signal, set_dumpable_behavior, set_parent_process_death_signal};

        set_parent_process_death_signal(Some(Signal::KILL))?;
        rustix::thread::set_no_new_privs(true)?;
        // No core file may contain this process's memory, and no other process of this user may read it.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    }
    Ok(system_calls::filter())
}

/// Sets the resource limits.
fn bound(Bounds { memory, cpu }: Bounds) -> io::Result<()> {
    let limits = [
        (Resource::As, memory, 0),
        (Resource::Data, memory, 0),
        (Resource::Cpu, cpu.as_secs(), GRACE),
        (Resource::Fsize, FILE, 0),
        (Resource::Nofile, FILES, 0),
        (Resource::Core, 0, 0),
    ];
    for (resource, limit, grace) in limits {
        let old = rustix::process::getrlimit(resource);
        // A stricter limit of the container stays in effect.
        let stricter = |limit: u64| old.maximum.map_or(limit, |maximum| maximum.min(limit));
        let (current, maximum) = (Some(stricter(limit)), Some(stricter(limit.saturating_add(grace))));
        setrlimit(resource, Rlimit { current, maximum })?;
    }
    // Serving calls has priority over compiling. A failure to lower the priority does not prevent compiling.
    let _ = setpriority_process(None, 10);
    Ok(())
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
mod system_calls {
    use std::collections::BTreeMap;

    use rustix::process::{Pid, getpid};
    use seccompiler::SeccompCmpArgLen::{Dword, Qword};
    use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
    use seccompiler::{
        BackendError, BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
        apply_filter_all_threads,
    };

    const STDIN: u64 = 0;
    const STDOUT: u64 = 1;
    const STDERR: u64 = 2;

    /// Permits only the system calls for computing, and those on the three streams. All other calls fail with `EPERM`,
    /// like a missing permission, which library code handles; a signal would kill the process.
    pub(super) fn filter() -> Result<(), String> {
        let cannot = |error: seccompiler::Error| format!("system calls cannot be filtered: {error}");
        let program = program().map_err(|error| cannot(error.into()))?;
        apply_filter_all_threads(&program).map_err(cannot)
    }

    fn program() -> Result<BpfProgram, BackendError> {
        let mut allowed = BTreeMap::new();
        for call in [
            // Memory. Mapping and protecting memory is restricted below.
            libc::SYS_brk,
            libc::SYS_madvise,
            libc::SYS_mremap,
            libc::SYS_munmap,
            // Seeds of hash maps; locks; time.
            libc::SYS_getrandom,
            libc::SYS_futex,
            libc::SYS_clock_gettime,
            libc::SYS_sched_yield,
            libc::SYS_getpid,
            libc::SYS_gettid,
            // Signal handlers of wasmtime and Rust.
            libc::SYS_rt_sigaction,
            libc::SYS_rt_sigprocmask,
            libc::SYS_rt_sigreturn,
            libc::SYS_sigaltstack,
            libc::SYS_restart_syscall,
            libc::SYS_exit,
            libc::SYS_exit_group,
        ] {
            allowed.insert(call, Vec::new());
        }
        // Other file descriptors, which the child may have inherited, are unusable.
        allowed.insert(libc::SYS_read, vec![rule(&[(0, Dword, Eq, STDIN)])?]);
        for call in [libc::SYS_write, libc::SYS_writev] {
            let streams = [STDOUT, STDERR].map(|stream| rule(&[(0, Dword, Eq, stream)]));
            allowed.insert(call, streams.into_iter().collect::<Result<_, _>>()?);
        }
        // Mapped memory must be anonymous and not executable: compiled code is written out and never run here.
        let data = (2, Qword, MaskedEq(u64::from(libc::PROT_EXEC.unsigned_abs())), 0);
        let anonymous = u64::from(libc::MAP_ANONYMOUS.unsigned_abs());
        allowed.insert(libc::SYS_mmap, vec![rule(&[data.clone(), (3, Qword, MaskedEq(anonymous), anonymous)])?]);
        allowed.insert(libc::SYS_mprotect, vec![rule(&[data])?]);
        // An aborting process ends itself with this call.
        let own = u64::from(Pid::as_raw(Some(getpid())).unsigned_abs());
        allowed.insert(libc::SYS_tgkill, vec![rule(&[(0, Dword, Eq, own)])?]);

        let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
        let architecture = std::env::consts::ARCH.try_into()?;
        SeccompFilter::new(allowed, refused, SeccompAction::Allow, architecture)?.try_into()
    }

    type Condition = (u8, seccompiler::SeccompCmpArgLen, SeccompCmpOp, u64);

    fn rule(conditions: &[Condition]) -> Result<SeccompRule, BackendError> {
        let conditions = conditions.iter().cloned();
        let conditions = conditions.map(|(at, size, compare, to)| SeccompCondition::new(at, size, compare, to));
        SeccompRule::new(conditions.collect::<Result<_, _>>()?)
    }
}

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))))]
mod system_calls {
    pub(super) fn filter() -> Result<(), String> {
        Err(format!("system calls cannot be filtered on {} {}", std::env::consts::OS, std::env::consts::ARCH))
    }
}
