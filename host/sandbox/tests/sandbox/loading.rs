//! Tests how bytes become a component: which are rejected and why, the compiling child, the cache.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use windlass_core::contract::{CallFailure, Limits, LoadFailure};
use windlass_core::value::digest::Digest;
use windlass_sandbox::compile::Bounds;
use windlass_sandbox::{CacheError, CompilerCommand, Options, Sandbox, SandboxError};

use crate::guest::{self, Guest};
use crate::{MIB, SANDBOX, command, limits, options, reconcile};

fn refusal(bytes: &[u8]) -> LoadFailure {
    SANDBOX.0.load(bytes).err().expect("refused")
}

fn message(failure: LoadFailure) -> String {
    match failure {
        LoadFailure::NotAComponent(message) => message,
        other => panic!("{other}"),
    }
}

#[test]
fn bytes_that_are_no_component_are_rejected_with_their_actual_format() {
    let core = wat::parse_str("(module)").unwrap();
    assert!(message(refusal(&core)).contains("wasm-tools component new"));
    for (bytes, what) in [
        (&b""[..], "empty"),
        (b"\x7fELF....", "native code"),
        (b"\x1f\x8b....", "gzip"),
        (b"\x28\xb5\x2f\xfd....", "zstd"),
        (b"(component)", "text"),
        (b"\0asm\x0e\0\x01\0", "unknown version"),
        (b"hello", "not WebAssembly"),
    ] {
        let message = message(refusal(bytes));
        assert!(message.contains(what), "{message}");
    }
}

#[test]
fn truncated_component_is_reported_as_damaged() {
    let whole = Guest::doing("");
    let message = message(refusal(&whole[..whole.len() / 2]));
    assert!(message.contains("damaged or cut off"), "{message}");
}

#[test]
fn a_component_that_is_damaged_inside_does_not_compile() {
    let mut bytes = Guest::doing("");
    let middle = bytes.windows(4).position(|window| window == b"\0asm").map(|_| bytes.len() / 3).unwrap();
    bytes[middle..middle + 64].fill(0xff);
    let failure = refusal(&bytes);
    assert!(matches!(failure, LoadFailure::Compile(_) | LoadFailure::NotAComponent(_)), "{failure}");
}

#[test]
fn component_of_another_world_is_rejected_with_its_exports() {
    let message = "no export windlass:plugin/reconciler of contract 0.2.0-rc.1 and 0.1; found run";
    assert_eq!(refusal(&guest::of_another_world()), LoadFailure::UnsupportedContract(message.to_owned()));
}

#[test]
fn component_without_the_contracts_functions_is_rejected_permanently() {
    let empty = r#"(component (instance $none) (export "windlass:plugin/reconciler@0.1.0" (instance $none)))"#;
    let failure = refusal(&wat::parse_str(empty).unwrap());
    assert!(matches!(failure, LoadFailure::Compile(_)) && failure.is_of_component(), "{failure}");
}

#[test]
fn webassembly_proposals_that_no_supported_language_needs_are_rejected() {
    for (proposal, fields) in [
        ("threads", "(memory $more 1 1 shared)"),
        ("64-bit memories", "(memory $more i64 1)"),
        ("garbage collection", "(type $t (struct (field i32))) (func (drop (struct.new $t (i32.const 1))))"),
        ("exceptions", "(tag $e) (func (throw $e))"),
        ("relaxed SIMD", "(func (param v128) (result v128) (i32x4.relaxed_trunc_f32x4_s (local.get 0)))"),
        ("function references", "(type $f (func)) (func (param (ref null $f)) (call_ref $f (local.get 0)))"),
        ("stack switching", "(type $f (func)) (type $c (cont $f)) (func (param (ref $c)))"),
    ] {
        let failure = refusal(&Guest { fields, ..Guest::default() }.component());
        assert!(matches!(failure, LoadFailure::Compile(_)), "{proposal}: {failure}");
    }
    for (field, what) in [("(type (stream u8))", "stream"), ("(core func (canon task.return))", "task.return")] {
        let failure = refusal(&[Guest::doing(""), section(field)].concat());
        assert!(matches!(failure, LoadFailure::Compile(_)) && failure.to_string().contains(what), "{failure}");
    }
}

/// A field of a component as bytes, without the header of eight bytes.
fn section(field: &str) -> Vec<u8> {
    wat::parse_str(format!("(component {field})")).unwrap().split_off(8)
}

#[test]
fn component_with_too_many_or_too_long_import_names_is_rejected() {
    let is_rejected = |count: usize, import: &dyn Fn(usize) -> String| {
        let imports: String = (0..count).map(import).collect();
        let text = format!(
            r#"(component {imports} (instance $empty) (export "windlass:plugin/reconciler@0.1.0" (instance $empty)))"#
        );
        let failure = refusal(&wat::parse_str(text).unwrap());
        failure.to_string().contains("the names of its imports and exports take more than")
    };
    let function = |number: usize| format!(r#"(import "a:b/c{number}" (func))"#);
    let long = |number: usize| format!(r#"(import "a:b/{}{number}" (func))"#, "long".repeat(20_000));
    let interface = |number: usize| {
        let functions: Vec<_> = (0..100).map(|item| format!(r#"(export "f{item}" (func))"#)).collect();
        let functions = functions.concat();
        format!(r#"(import "wasi:cli/stdout@0.2.{number}" (instance {functions}))"#)
    };
    // The component lacks the contract's functions, but its names are within the limit.
    assert!(!is_rejected(500, &function) && !is_rejected(3, &long) && !is_rejected(10, &interface));
    assert!(is_rejected(10_000, &function) && is_rejected(4, &long) && is_rejected(100, &interface));
}

#[test]
fn component_over_the_size_limit_is_not_compiled() {
    let cache = TempDir::new().unwrap();
    let sandbox = Sandbox::new(Options { max_component_bytes: 100, ..options(&cache) }).unwrap();
    let failure = sandbox.load(&[0; 101]).err().unwrap();
    assert_eq!(failure, LoadFailure::TooLarge { size: 101, limit: 100 });
}

#[test]
fn failing_describe_is_reported_as_such() {
    let cache = TempDir::new().unwrap();
    let describe = Limits { deadline: Duration::from_millis(50), ..limits() };
    let sandbox = Sandbox::new(Options { describe, ..options(&cache) }).unwrap();
    let late = LoadFailure::Describe(CallFailure::Deadline(Duration::from_millis(50)));
    let looping = Guest { describe: "(loop (br 0))", ..Guest::default() };
    assert_eq!(sandbox.load(&looping.component()).err(), Some(late.clone()));
    let start = Guest { fields: "(func $begin (loop (br 0))) (start $begin)", ..Guest::default() };
    assert_eq!(sandbox.load(&start.component()).err(), Some(late));
    let trap = Guest { describe: "unreachable", ..Guest::default() };
    let failure = sandbox.load(&trap.component()).err().unwrap();
    assert!(matches!(failure, LoadFailure::Describe(CallFailure::Trap(_))), "{failure}");
}

fn compile_failure(compiler: CompilerCommand, timeout: Duration) -> String {
    let cache = TempDir::new().unwrap();
    let sandbox = Sandbox::new(Options { compiler, compile_timeout: Some(timeout), ..options(&cache) }).unwrap();
    match sandbox.load(&Guest::doing("")).err().unwrap() {
        LoadFailure::Compiler(message) => message,
        other => panic!("{other}"),
    }
}

#[test]
fn a_compiler_that_takes_too_long_is_killed() {
    let message = compile_failure(command("/bin/sh", &["-c", "exec sleep 1000"]), Duration::from_millis(100));
    assert!(message.contains("longer than"), "{message}");
}

#[test]
fn s03_stopping_the_sandbox_ends_a_compilation_and_does_not_count_it_as_an_attempt() {
    let cache = TempDir::new().unwrap();
    let compiler = command("/bin/sh", &["-c", "exec sleep 1000"]);
    let sandbox = Sandbox::new(Options { compiler, ..options(&cache) }).unwrap();
    let loading = sandbox.clone();
    let loading = std::thread::spawn(move || loading.load(&Guest::doing("")).err().unwrap());
    let attempt = cache.path().join(format!("cache/{}.attempt", Digest::of(&Guest::doing("")).hex()));
    while !attempt.is_file() {
        assert!(!loading.is_finished(), "the compilation ended before it was stopped");
        std::thread::yield_now();
    }
    // The child would sleep longer than any test may last.
    sandbox.stop();
    assert_eq!(loading.join().unwrap(), LoadFailure::stopping());
    assert_eq!(sandbox.load(&Guest::doing("")).err().unwrap(), LoadFailure::stopping());
    assert!(!attempt.exists());
    assert!(
        Sandbox::new(options(&cache)).unwrap().load(&Guest::doing("")).is_ok(),
        "the component is compiled at once"
    );
}

#[test]
fn s03_attempt_that_ended_a_host_delays_hosts_and_not_commands() {
    let cache = TempDir::new().unwrap();
    let bytes = Guest::doing("");
    let host = Sandbox::new(options(&cache)).unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let attempt = cache.path().join(format!("cache/{}.attempt", Digest::of(&bytes).hex()));
    fs::write(attempt, format!("3 {now}")).unwrap();
    assert!(matches!(host.load(&bytes).err().unwrap(), LoadFailure::Interrupted { attempts: 3, .. }));
    // A user may interrupt a command, and the next command must not have to wait.
    let command = Sandbox::new(Options { counts_attempts: false, ..options(&cache) }).unwrap();
    assert!(command.load(&bytes).is_ok());
}

#[test]
fn compiler_whose_file_is_removed_while_the_host_runs_still_compiles() {
    let name = format!("compile-child-of-{}", std::process::id());
    let beside = std::env::current_exe().unwrap().with_file_name(&name);
    // Linked, not copied: another test's child could still hold a file that was written, and such a file does not start.
    fs::hard_link(crate::example("compile-child"), &beside).unwrap();
    let compiler = CompilerCommand::beside(&name);
    fs::remove_file(&beside).unwrap();
    let cache = TempDir::new().unwrap();
    let sandbox = Sandbox::new(Options { compiler: compiler.unwrap(), ..options(&cache) }).unwrap();
    assert!(sandbox.load(&Guest::doing("")).is_ok());
    let missing = CompilerCommand::beside(&name).unwrap_err().to_string();
    assert!(missing.contains(&beside.display().to_string()), "{missing}");
}

#[test]
fn compiler_that_cannot_be_confined_reports_it_and_compiles() {
    let unconfined = r#"echo '{"Unconfined":"no filters here"}' >&2"#;
    let child = crate::example("compile-child");
    let compiler = command("/bin/sh", &["-c", &format!("{unconfined}; exec {}", child.display())]);
    let cache = TempDir::new().unwrap();
    let sandbox = Sandbox::new(Options { compiler, ..options(&cache) }).unwrap();
    assert!(sandbox.load(&Guest::doing("")).is_ok());
    // The child's other messages still count, and the missing confinement is not the reported cause.
    let failure = sandbox.load(&guest::of_another_world()).err();
    assert!(matches!(failure, Some(LoadFailure::UnsupportedContract(_))), "{failure:?}");
    let dying = command("/bin/sh", &["-c", &format!("{unconfined}; echo no memory >&2; kill -9 $$")]);
    let message = compile_failure(dying, Duration::from_mins(1));
    assert!(message.ends_with(": no memory"), "{message}");
}

#[test]
fn compiler_that_dies_fails_only_the_load_and_its_last_output_is_reported() {
    let minute = Duration::from_mins(1);
    let message = compile_failure(command("/bin/sh", &["-c", "echo no heap >&2; kill -SEGV $$"]), minute);
    assert_eq!(message, "the compiler was ended by signal 11: no heap");
    let message = compile_failure(command("/bin/sh", &["-c", "kill -9 $$"]), minute);
    assert!(message.contains("(signal 9)") && message.contains("less free memory"), "{message}");
    assert!(message.contains("that --compile-memory allows"), "{message}");
    let message = compile_failure(command("/nowhere/compiler", &[]), minute);
    assert!(message.contains("does not start"), "{message}");
}

/// The failure to compile a component of thousands of functions within these bounds.
fn failure_within(bounds: Bounds) -> String {
    let large = "(func (param i64) (result i64) (i64.rem_u (i64.mul (local.get 0) (local.get 0)) (i64.const 7)))"
        .repeat(60_000);
    let cache = TempDir::new().unwrap();
    let sandbox = Sandbox::new(Options { compile: bounds, ..options(&cache) }).unwrap();
    sandbox.load(&Guest { fields: &large, ..Guest::default() }.component()).err().unwrap().to_string()
}

#[test]
fn s03_compiler_that_exceeds_a_limit_names_the_limit_and_its_flag() {
    // Beside other tests, the compiler may get too little of the CPU to use up a second in time; then it is tried again.
    let on_a_busy_machine = "compilation failed: it took longer than 7.5s, with a low priority on a busy machine; \
                             --compile-cpu-time raises this limit too";
    let mut attempts = (0..20).map(|_| failure_within(Bounds { cpu: Duration::from_secs(1), ..Bounds::default() }));
    let message = attempts.find(|message| message != on_a_busy_machine);
    let of_cpu_time = "compilation failed: it used more than 1s of CPU time; raise --compile-cpu-time";
    assert_eq!(message.as_deref(), Some(of_cpu_time));
    let message = failure_within(Bounds { memory: 48 * MIB, ..Bounds::default() });
    assert!(
        message.starts_with("compilation failed: it needs more than 48 MiB of memory; raise --compile-memory"),
        "{message}"
    );
}

#[test]
fn garbage_output_of_the_compiler_fails_the_load() {
    let message = compile_failure(command("/bin/sh", &["-c", "cat"]), Duration::from_mins(1));
    assert!(!message.is_empty());
}

#[test]
fn compiling_child_gets_no_environment_variables_of_the_host() {
    // Cargo sets this variable for the test.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let args = ["-c", "echo \"<$CARGO_MANIFEST_DIR>\" >&2; exit 1"];
    let message = compile_failure(command("/bin/sh", &args), Duration::from_mins(1));
    assert!(message.ends_with(": <>"), "{message}");
}

/// A cache with one compiled component, and a sandbox on it that cannot compile.
fn filled() -> (TempDir, Vec<u8>, Options) {
    let cache = TempDir::new().unwrap();
    let bytes = Guest::doing("");
    Sandbox::new(options(&cache)).unwrap().load(&bytes).unwrap();
    let cannot = Options { compiler: command("/bin/false", &[]), ..options(&cache) };
    (cache, bytes, cannot)
}

fn file(cache: &TempDir, end: &str) -> PathBuf {
    let entries = fs::read_dir(cache.path().join("cache")).unwrap();
    let mut found = entries.map(|entry| entry.unwrap().path()).filter(|path| path.to_str().unwrap().ends_with(end));
    let file = found.next().unwrap();
    assert!(found.next().is_none(), "nothing else is left in the cache");
    file
}

#[test]
fn a_component_that_is_in_the_cache_is_not_compiled_again() {
    let (cache, bytes, cannot) = filled();
    let component = Sandbox::new(cannot).unwrap().load(&bytes).unwrap();
    assert!(reconcile(&component, &limits()).0.is_ok());
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(cache.path().join("cache")), mode(file(&cache, ".cwasm"))), (0o700, 0o600));
}

#[test]
fn cached_component_is_found_by_its_digest_while_its_compiled_file_is_intact() {
    let (cache, bytes, cannot) = filled();
    let (digest, size) = (Digest::of(&bytes), bytes.len() as u64);
    let sandbox = Sandbox::new(cannot).unwrap();
    let component = sandbox.find(digest).unwrap();
    assert_eq!((component.digest(), component.surface().size), (digest, size));
    assert!(reconcile(&component, &limits()).0.is_ok());

    assert!(sandbox.find(Digest::of(b"another")).is_none());
    let small = Sandbox::new(Options { max_component_bytes: size - 1, ..options(&cache) }).unwrap();
    assert!(small.find(digest).is_none(), "the component exceeds the new limit");
    let path = file(&cache, ".cwasm");
    // Written as a new file, because the mapped one must stay unchanged.
    fs::remove_file(&path).unwrap();
    fs::write(&path, b"damaged").unwrap();
    assert!(sandbox.find(digest).is_none());
}

/// How many mappings of this process are of files in this cache.
#[cfg(target_os = "linux")]
fn mappings(cache: &TempDir) -> usize {
    let folder = cache.path().to_string_lossy().into_owned();
    fs::read_to_string("/proc/self/maps").unwrap().lines().filter(|line| line.contains(&folder)).count()
}

#[cfg(target_os = "linux")]
#[test]
fn component_without_calls_is_released_and_the_next_call_maps_it_again_without_the_cache() {
    let for_the_pool = Guest::doing("");
    let on_demand = Guest { fields: "(memory 1) (memory 1)", ..Guest::default() }.component();
    for bytes in [for_the_pool, on_demand] {
        let cache = TempDir::new().unwrap();
        let sandbox = Sandbox::new(options(&cache)).unwrap();
        let component = sandbox.load(&bytes).unwrap();
        sandbox.release_unused();
        assert_ne!(mappings(&cache), 0, "`describe` was a call");
        sandbox.release_unused();
        assert_eq!(mappings(&cache), 0);
        fs::remove_dir_all(cache.path().join("cache")).unwrap();
        for _ in 0..2 {
            reconcile(&component, &limits()).0.unwrap().unwrap();
            sandbox.release_unused();
            assert_ne!(mappings(&cache), 0);
        }
        drop(component);
        assert_eq!(mappings(&cache), 0);
    }
}

#[test]
fn unused_compiled_files_are_deleted_after_a_while() {
    let (cache, bytes, _) = filled();
    let digest = Digest::of(&bytes);
    let sandbox = Sandbox::new(options(&cache)).unwrap();
    let folder = cache.path().join("cache");
    let partial = folder.join(".cwasm-AbC123");
    for name in [".cwasm-AbC123", "facts.json", ".tmpAbC123"] {
        fs::write(folder.join(name), b"").unwrap();
    }
    let days_ago = SystemTime::now() - Duration::from_hours(48);
    let age = |path: PathBuf| fs::File::options().append(true).open(path).unwrap().set_modified(days_ago).unwrap();
    let none = std::collections::HashSet::new();

    assert_eq!(sandbox.retain(&none).unwrap(), 0, "all files are new: a plugin may be about to use them");
    for entry in fs::read_dir(&folder).unwrap() {
        age(entry.unwrap().path());
    }
    assert_eq!(sandbox.retain(&[digest].into()).unwrap(), 1);
    assert!(!partial.exists() && sandbox.find(digest).is_some());
    assert_eq!(sandbox.retain(&none).unwrap(), 2, "the compiled file and its checksum");
    assert!(sandbox.find(digest).is_none());
    for others in ["facts.json", ".tmpAbC123"] {
        assert!(folder.join(others).exists(), "{others} is not a compiled file");
    }
}

#[test]
fn changed_compiled_file_is_never_loaded_and_is_compiled_again() {
    let (cache, bytes, cannot) = filled();
    let path = file(&cache, ".cwasm");
    let mut damaged = fs::read(&path).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let failure = Sandbox::new(cannot).unwrap().load(&bytes).err().unwrap();
    assert!(matches!(failure, LoadFailure::Compiler(_)), "{failure}");
    assert!(!path.exists());
    Sandbox::new(options(&cache)).unwrap().load(&bytes).unwrap();
    assert_ne!(fs::read(&path).unwrap(), damaged);
}

#[test]
fn a_compiled_file_of_unknown_origin_is_never_loaded() {
    let (cache, bytes, cannot) = filled();
    fs::remove_file(file(&cache, ".sha256")).unwrap();
    assert!(Sandbox::new(cannot).unwrap().load(&bytes).is_err());

    let (cache, bytes, cannot) = filled();
    fs::set_permissions(file(&cache, ".cwasm"), fs::Permissions::from_mode(0o666)).unwrap();
    assert!(Sandbox::new(cannot).unwrap().load(&bytes).is_err());

    let (cache, bytes, cannot) = filled();
    let elsewhere = cache.path().join("elsewhere");
    fs::rename(file(&cache, ".cwasm"), &elsewhere).unwrap();
    let link = file(&cache, ".sha256").with_extension("");
    std::os::unix::fs::symlink(&elsewhere, link).unwrap();
    assert!(Sandbox::new(cannot).unwrap().load(&bytes).is_err());
}

#[test]
fn file_with_a_valid_checksum_that_is_no_compiled_component_is_compiled_again() {
    let (cache, bytes, cannot) = filled();
    let path = file(&cache, ".cwasm");
    fs::write(&path, b"\x7fELF and nothing").unwrap();
    let sum = Digest::of(b"\x7fELF and nothing").hex();
    fs::write(file(&cache, ".sha256"), sum).unwrap();
    assert!(Sandbox::new(cannot).unwrap().load(&bytes).is_err());
    Sandbox::new(options(&cache)).unwrap().load(&bytes).unwrap();
}

#[test]
fn cache_folder_that_other_users_may_write_is_rejected() {
    let cache = TempDir::new().unwrap();
    let folder = cache.path().join("cache");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let error = Sandbox::new(options(&cache)).err().unwrap();
    assert!(matches!(error, SandboxError::Cache(CacheError::NotPrivate { mode: 0o777, .. })), "{error}");
    let private = cache.path().join("private");
    fs::create_dir(&private).unwrap();
    fs::remove_dir(&folder).unwrap();
    std::os::unix::fs::symlink(private, &folder).unwrap();
    assert!(Sandbox::new(options(&cache)).is_err(), "a symbolic link is rejected");
}

#[test]
fn cache_folder_that_other_users_may_read_is_made_private() {
    let cache = TempDir::new().unwrap();
    let folder = cache.path().join("cache");
    for open in [0o755, 0o711, 0o2750, 0o500] {
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(open)).unwrap();
        Sandbox::new(options(&cache)).unwrap().load(&Guest::doing("")).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o7777, 0o700, "{open:o}");
        fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn failed_compilation_leaves_no_partial_file() {
    let cache = TempDir::new().unwrap();
    let sandbox = Sandbox::new(options(&cache)).unwrap();
    assert!(sandbox.load(&guest::of_another_world()).is_err());
    assert_eq!(fs::read_dir(cache.path().join("cache")).unwrap().count(), 0);
}
