//! Builds components from a few lines of WebAssembly text; world, memory and allocator are always the same.

use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// The WASI interfaces that a guest may import, and two unsupported interfaces.
const WIT: &[&str] = &[
    "package wasi:io@0.2.0;
     interface poll { resource pollable { block: func(); ready: func() -> bool; } }
     interface error { resource error; }
     interface streams {
       use error.{error}; use poll.{pollable};
       variant stream-error { last-operation-failed(error), closed }
       resource output-stream { blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>; }
     }",
    "package wasi:clocks@0.2.0;
     interface monotonic-clock {
       use wasi:io/poll@0.2.0.{pollable};
       now: func() -> u64;
       subscribe-duration: func(when: u64) -> pollable;
     }
     interface wall-clock { record datetime { seconds: u64, nanoseconds: u32 } now: func() -> datetime; }",
    "package wasi:random@0.2.0;
     interface random { get-random-bytes: func(len: u64) -> list<u8>; }",
    "package wasi:filesystem@0.2.0;
     interface types { resource descriptor; }
     interface preopens { use types.{descriptor}; get-directories: func() -> list<tuple<descriptor, string>>; }",
    "package wasi:cli@0.2.0;
     interface environment {
       get-environment: func() -> list<tuple<string, string>>;
       get-arguments: func() -> list<string>;
       initial-cwd: func() -> option<string>;
     }
     interface exit { exit: func(status: result); }
     interface terminal-output { resource terminal-output; }
     interface terminal-stdout {
       use terminal-output.{terminal-output};
       get-terminal-stdout: func() -> option<terminal-output>;
     }
     interface stdout { use wasi:io/streams@0.2.0.{output-stream}; get-stdout: func() -> output-stream; }",
    "package wasi:http@0.2.0;
     interface handler {
       use wasi:io/streams@0.2.0.{output-stream};
       resource request;
       handle: func(r: borrow<request>, body: borrow<output-stream>);
       open: func() -> string;
     }",
    "package test:guest;
     world guest {
       import windlass:plugin/host@0.1.0;
       import wasi:io/poll@0.2.0;
       import wasi:io/streams@0.2.0;
       import wasi:clocks/monotonic-clock@0.2.0;
       import wasi:clocks/wall-clock@0.2.0;
       import wasi:random/random@0.2.0;
       import wasi:cli/environment@0.2.0;
       import wasi:cli/exit@0.2.0;
       import wasi:cli/stdout@0.2.0;
       import wasi:cli/terminal-stdout@0.2.0;
       import wasi:filesystem/preopens@0.2.0;
       import wasi:http/handler@0.2.0;
       export windlass:plugin/reconciler@0.1.0;
     }
     world other { export run: func(); }",
];

/// Parts of a core module. The response's record lies at 1024, all zeroes: `ok`, nothing desired.
#[derive(Default)]
pub struct Guest<'a> {
    /// `(import …)` fields.
    pub imports: &'a str,
    /// Other fields: functions, data, more memories.
    pub fields: &'a str,
    /// Runs first when the host allocates memory in the guest.
    pub realloc: &'a str,
    /// Body of `describe`, before it returns a record of zeroes.
    pub describe: &'a str,
    /// Body of `reconcile`. Locals `$parent` and `$parent_len` are the request's parent.
    pub reconcile: &'a str,
}

impl Guest<'_> {
    /// Bytes of a component with this body of `reconcile`.
    pub fn doing(reconcile: &str) -> Vec<u8> {
        Guest { reconcile, ..Guest::default() }.component()
    }

    /// The component's bytes.
    pub fn component(&self) -> Vec<u8> {
        let Guest { imports, fields, realloc, describe, reconcile } = self;
        componentize(
            &format!(
                r#"(module
                {imports}
                (memory (export "memory") 2)
                (global $top (mut i32) (i32.const 65536))
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
                  {realloc}
                  (local.set $at (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
                  (global.set $top (i32.add (local.get $at) (local.get 3)))
                  (if (i32.gt_u (global.get $top) (i32.mul (memory.size) (i32.const 65536)))
                    (then (drop (memory.grow (i32.add (i32.div_u (local.get 3) (i32.const 65536)) (i32.const 1))))))
                  (local.get $at))
                (func $describe (export "windlass:plugin/reconciler@0.1.0#describe") (result i32)
                  {describe}
                  (i32.const 1024))
                (func $reconcile (export "windlass:plugin/reconciler@0.1.0#reconcile")
                  (param $phase i32) (param $parent i32) (param $parent_len i32)
                  (param i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
                  (local $a i32) (local $b i32)
                  {reconcile}
                  (i32.const 1024))
                {fields})"#
            ),
            "guest",
        )
    }
}

/// A component without the contract's export.
pub fn of_another_world() -> Vec<u8> {
    componentize(r#"(module (func (export "run")))"#, "other")
}

fn componentize(text: &str, world: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    resolve.push_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit/0.1")).unwrap();
    let package = WIT.iter().map(|wit| resolve.push_str("test.wit", wit).unwrap()).last().unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    let mut module = wat::parse_str(text).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().validate(true).module(&module).unwrap().encode().unwrap()
}
