//! What the compiling child cannot do, whatever a component makes of the compiler.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::example;

#[test]
fn the_compiling_child_can_take_memory_and_use_its_streams_and_nothing_else() {
    let mut child = Command::new(example("confined"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example starts");
    child.stdin.take().expect("a pipe").write_all(b"the input").expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    let expected = "\
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
read its input: done
the input";
    assert_eq!(said, expected);
}
