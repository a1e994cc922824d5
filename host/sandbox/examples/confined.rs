//! For the tests: confines itself like the compiling child, then attempts forbidden operations and reports the results.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, Signal, getppid, kill_process, setrlimit};
use windlass_sandbox::compile::{Bounds, confine};

fn main() -> io::Result<()> {
    // Opened before the confinement, as if inherited.
    let mut before = File::open("/proc/self/status")?;
    let writable = tempfile::tempfile()?;
    let parent = getppid().unwrap_or(Pid::INIT);
    let unwritten = std::env::temp_dir().join("windlass-confined");
    let mut said = match confine(Bounds { memory: 2 << 30, cpu: Bounds::CPU })? {
        Ok(()) => String::new(),
        Err(why) => format!("unconfined: {why}\n"),
    };
    let mut tried = |what: &str, result: io::Result<()>| {
        let end = match result {
            Ok(()) => "done".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => "refused".to_owned(),
            Err(error) => error.to_string(),
        };
        writeln!(said, "{what}: {end}").map_err(io::Error::other)
    };
    tried("read a file", File::open("/etc/passwd").map(drop))?;
    tried("write a file", File::create(&unwritten).map(drop))?;
    tried("read a folder", fs::read_dir("/").map(drop))?;
    tried("look at a file", fs::metadata("/").map(drop))?;
    tried("remove a file", fs::remove_file("/nowhere"))?;
    tried("read an open file", before.read_to_end(&mut Vec::new()).map(drop))?;
    tried("write an open file", (&writable).write_all(b"x"))?;
    tried("connect", TcpStream::connect("127.0.0.1:9").map(drop))?;
    tried("listen", TcpListener::bind("127.0.0.1:0").map(drop))?;
    tried("send", UdpSocket::bind("127.0.0.1:0").map(drop))?;
    tried("socket pair", UnixStream::pair().map(drop))?;
    tried("run a program", Command::new("/bin/true").status().map(drop))?;
    tried("start a thread", std::thread::Builder::new().spawn(|| {}).map(drop))?;
    // The signal would have no effect if it were permitted.
    tried("signal its parent", kill_process(parent, Signal::CONT).map_err(io::Error::from))?;
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    tried("change a limit", setrlimit(Resource::Core, none).map_err(io::Error::from))?;
    // Operations that compiling needs.
    let grown = vec![1_u8; 64 << 20];
    tried("take memory", if grown.iter().all(|byte| *byte == 1) { Ok(()) } else { Err(io::Error::other("lost")) })?;
    // Exceeds the limit of the address space by three quarters.
    let too_much = Vec::<u8>::new().try_reserve_exact(7 << 29);
    tried("take more memory", too_much.map_err(|_| io::ErrorKind::OutOfMemory.into()))?;
    let mut stdout = io::stdout().lock();
    // The tests may inspect the process between the last line and the end of the input.
    writeln!(stdout, "{said}waiting for input")?;
    let mut input = Vec::new();
    io::stdin().lock().read_to_end(&mut input)?;
    stdout.write_all(&input)
}
