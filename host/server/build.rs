//! Lets the linker pack the table of the addresses that the loader of the system adjusts at each start: 0.01 MB instead of 0.8 MB, all of
//! which would be read into memory.

use std::process::Command;

fn main() {
    // From the folder of each package that this is the build script of.
    println!("cargo::rerun-if-changed=../server/build.rs");
    if is_optimized() && glibc().is_some_and(|version| version >= (2, 36)) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Development links several times an hour, on whatever linker there is.
fn is_optimized() -> bool {
    std::env::var("PROFILE").is_ok_and(|profile| profile == "release")
}

/// The version of this system's C library, if it is glibc and the binary is for this system: older ones cannot load such a table.
fn glibc() -> Option<(u32, u32)> {
    if std::env::var("TARGET") != std::env::var("HOST") {
        return None;
    }
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = version.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
