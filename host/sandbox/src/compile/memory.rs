//! Computes the memory limit of the compiling child: a fixed maximum, reduced to a fraction of the container's memory,
//! since the serving process needs the rest.

use std::fs;
use std::path::Path;

/// The limit if nothing else restricts the child, in bytes. A Python component of 40 MB needs most of it.
pub(super) const MOST: u64 = 2 * 1024 * 1024 * 1024;
/// The minimum limit, in bytes: no component compiles with less.
const LEAST: u64 = 128 * 1024 * 1024;
/// Mount point of the control groups.
const CGROUPS: &str = "/sys/fs/cgroup";
/// Cgroup version 1 represents a missing limit by a number above this one.
const UNLIMITED: u64 = 1 << 60;

/// The limit on this machine, in bytes: three quarters of the memory of this process's control group, at most [`MOST`].
pub(super) fn default_bound() -> u64 {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    bound_of(limit(&groups, Path::new(CGROUPS)))
}

fn bound_of(limit: Option<u64>) -> u64 {
    limit.map_or(MOST, |limit| (limit / 4 * 3).clamp(LEAST, MOST))
}

/// The smallest memory limit of the control groups in a `/proc/self/cgroup`, in bytes; `None` if there is no limit.
fn limit(groups: &str, mounted: &Path) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let path = Path::new(path.trim_start_matches('/'));
        if controllers.is_empty() {
            smallest(&mounted.join(path), mounted, "memory.max")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            let mounted = mounted.join("memory");
            smallest(&mounted.join(path), &mounted, "memory.limit_in_bytes")
        } else {
            None
        }
    });
    limits.min()
}

/// The smallest limit of a group and its ancestors, as far as they are visible. In a container the mount may be the
/// process's own group, so that the path of the group does not exist.
fn smallest(group: &Path, mounted: &Path, file: &str) -> Option<u64> {
    let groups = group.ancestors().take_while(|group| group.starts_with(mounted));
    groups.filter_map(|group| read(&group.join(file))).min()
}

fn read(file: &Path) -> Option<u64> {
    // Cgroup version 2 represents a missing limit by `max`.
    fs::read_to_string(file).ok()?.trim().parse().ok().filter(|limit| *limit < UNLIMITED)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of control groups with these files.
    fn mounted(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (file, text) in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        folder
    }

    #[test]
    fn s03_memory_limit_is_read_from_the_own_control_group_or_one_above_it() {
        let v2 =
            mounted(&[("memory.max", "max\n"), ("pod/memory.max", "1073741824\n"), ("pod/app/memory.max", "max\n")]);
        assert_eq!(limit("0::/pod/app\n", v2.path()), Some(1 << 30));
        assert_eq!(limit("0::/other\n", v2.path()), None);
        let own = mounted(&[("memory.max", "536870912\n")]);
        assert_eq!(limit("0::/\n", own.path()), Some(1 << 29));
        assert_eq!(limit("0::/kubepods/not/to/be/seen\n", own.path()), Some(1 << 29), "the mount is the group itself");

        let v1 = mounted(&[
            ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory/docker/a/memory.limit_in_bytes", "268435456\n"),
            ("cpu/docker/a/memory.limit_in_bytes", "1\n"),
        ]);
        let groups = "5:cpu,cpuacct:/docker/a\n4:memory:/docker/a\n1:name=systemd:/docker/a\n0::/\n";
        assert_eq!(limit(groups, v1.path()), Some(1 << 28));
        assert_eq!(limit("4:memory:/\n", v1.path()), None);
        assert_eq!(limit("4:memory:/../../etc\nnonsense\n", v1.path()), None);
    }

    #[test]
    fn s03_compiling_child_gets_three_quarters_of_the_memory_limit_within_bounds() {
        const MIB: u64 = 1024 * 1024;
        for (limit, bound) in [
            (None, 2048),
            (Some(64 * 1024 * MIB), 2048),
            (Some(1024 * MIB), 768),
            (Some(512 * MIB), 384),
            (Some(64 * MIB), 128),
        ] {
            assert_eq!(bound_of(limit), bound * MIB, "{limit:?}");
        }
    }
}
