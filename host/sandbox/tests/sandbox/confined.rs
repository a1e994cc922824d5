//! Tests what the compiling child cannot do, even if a component exploits the compiler.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use crate::example;

const EXPECTED: &str = "\
read a file: refused
write a file: refused
read a folder: refused
look at a file: refused
remove a file: refused
read an open file: refused
write an open file: refused
connect: refused
listen: refused
send: refused
socket pair: refused
run a program: refused
start a thread: refused
signal its parent: refused
change a limit: refused
take memory: done
take more memory: out of memory
";

/// The last line of the example before it reads its input.
const WAITS: &str = "waiting for input\n";

#[test]
fn the_compiling_child_can_take_bounded_memory_and_use_its_streams_and_nothing_else() {
    let mut child = Command::new(example("confined"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut output = String::new();
    while !output.ends_with(WAITS) && stdout.read_line(&mut output).expect("UTF-8") > 0 {}
    assert_eq!(output, format!("{EXPECTED}{WAITS}"));
    let limits = fs::read_to_string(format!("/proc/{}/limits", child.id())).expect("the limits of the child");
    for (limit, bound, last) in [
        // At the first one, a signal that names the limit; at the second one, a signal that nothing survives.
        ("Max cpu time", "120", "125"),
        ("Max file size", "1073741824", "1073741824"),
        ("Max data size", "2147483648", "2147483648"),
        ("Max address space", "2147483648", "2147483648"),
        ("Max open files", "16", "16"),
        ("Max core file size", "0", "0"),
    ] {
        let values = limits.lines().find_map(|line| line.strip_prefix(limit)).expect(limit);
        let [soft, hard, ..] = values.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{values}") };
        assert_eq!((soft, hard), (bound, last), "{limit}");
    }
    child.stdin.take().expect("a pipe").write_all(b"the input").expect("the child reads its input");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("UTF-8");
    assert_eq!(rest, "the input");
    assert!(child.wait().expect("the child ends").success());
}
