//! The proxy in front of a server that responds to any request and records it.

// A test fails by a panic, and so do the functions that only tests call.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::unwrap_used)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use windlass_faults::{Fault, Faults, Match, Moment, Outcome, Rule, Verb};

/// A server instead of the API server.
struct Server {
    faults: Faults,
    requests: Arc<Mutex<Vec<String>>>,
    /// The events of the only watch that a test opens.
    events: Sender<String>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let faults = Faults::start(&format!("http://{}", listener.local_addr().unwrap()), b"", 1).unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (events, delivered) = channel();
        let (seen, delivered) = (requests.clone(), Arc::new(Mutex::new(delivered)));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, delivered) = (seen.clone(), delivered.clone());
                thread::spawn(move || respond(stream, &seen, &delivered));
            }
        });
        Self { faults, requests, events }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    fn connect(&self, method: &str, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.faults.url().trim_start_matches("http://")).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: proxy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            .unwrap();
        stream
    }

    /// The whole reply; empty if the connection was closed without one.
    fn request(&self, method: &str, path: &str) -> String {
        let mut reply = String::new();
        self.connect(method, path).read_to_string(&mut reply).unwrap();
        reply
    }

    /// Makes the watch of Pods deliver a version of an object.
    fn event(&self, name: &str, version: u32) {
        let metadata = format!(r#"{{"namespace":"n","name":"{name}","resourceVersion":"{version}"}}"#);
        self.events.send(format!("{{\"type\":\"MODIFIED\",\"object\":{{\"metadata\":{metadata}}}}}\n")).unwrap();
    }

    fn watch(&self) -> Lines {
        Lines(BufReader::new(self.connect("GET", "/api/v1/pods?watch=true")))
    }
}

fn respond(stream: TcpStream, requests: &Mutex<Vec<String>>, events: &Mutex<Receiver<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let mut header = String::new();
        while reader.read_line(&mut header).unwrap_or(0) > 2 {
            header.clear();
        }
        requests.lock().unwrap().push(line.trim_end().trim_end_matches(" HTTP/1.1").to_owned());
        if !line.contains("watch=true") {
            let body = r#"{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"old"}}]}"#;
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
            continue;
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        for event in events.lock().unwrap().iter() {
            if write!(stream, "{:x}\r\n{event}\r\n", event.len()).is_err() {
                return;
            }
        }
        return;
    }
}

/// The lines of a watch.
struct Lines(BufReader<TcpStream>);

impl Lines {
    /// The versions of the next events, up to the end of the connection.
    fn versions(&mut self, count: usize) -> Vec<String> {
        let mut versions = Vec::new();
        let mut line = String::new();
        while versions.len() < count && self.0.read_line(&mut line).unwrap_or(0) > 0 {
            let version = line.split_once("resourceVersion\":\"").and_then(|(_, rest)| rest.split_once('"'));
            versions.extend(version.map(|(version, _)| version.to_owned()));
            line.clear();
        }
        versions
    }
}

const POD: &str = "/api/v1/namespaces/n/pods/web";

#[test]
fn injected_error_is_a_status_object_and_the_server_gets_no_request() {
    let server = Server::start();
    let busy = server.faults.add(Rule::new(Match::verbs(&[Verb::Delete]), Fault::Status(429)));
    let reply = server.request("DELETE", POD);
    assert!(reply.starts_with("HTTP/1.1 429"), "{reply}");
    assert!(reply.contains(r#""reason":"TooManyRequests""#) && reply.contains(r#""kind":"Status""#), "{reply}");
    assert!(server.requests().is_empty());
    server.faults.remove(busy);
    assert!(server.request("DELETE", POD).starts_with("HTTP/1.1 200"));
    let outcomes: Vec<_> = server.faults.journal().iter().map(|passed| passed.outcome).collect();
    assert_eq!(outcomes, [Outcome::Injected(429), Outcome::Replied(200)]);
}

#[test]
fn a_connection_is_closed_before_the_request_reaches_the_server() {
    let server = Server::start();
    server.faults.add(Rule::new(Match::writes(), Fault::CloseBefore));
    assert_eq!(server.request("DELETE", POD), "");
    assert!(server.requests().is_empty());
    assert_eq!(server.faults.journal()[0].outcome, Outcome::NotSent);
}

#[test]
fn a_hook_is_called_once_at_its_request_and_withholds_the_reply() {
    let server = Server::start();
    for (moment, sent) in [(Moment::Before, 1), (Moment::After, 2)] {
        let executed = server.requests();
        let (called, calls) = channel();
        let hook = server.faults.at_request(Match::writes(), 2, moment, move |call| called.send(call.clone()).unwrap());
        assert!(server.request("DELETE", POD).starts_with("HTTP/1.1 200"));
        assert!(server.request("GET", POD).starts_with("HTTP/1.1 200"));
        assert_eq!(hook.hit(), None);
        assert_eq!(server.request("DELETE", POD), "");
        assert_eq!(calls.recv().unwrap().name, "web");
        assert_eq!(hook.hit().map(|call| call.verb), Some(Verb::Delete));
        let deleted = server.requests()[executed.len()..].iter().filter(|line| line.starts_with("DELETE")).count();
        assert_eq!(deleted, sent, "{moment:?}");
        let lost = server.faults.journal().iter().any(|passed| passed.outcome == Outcome::ReplyLost(200));
        assert_eq!(lost, moment == Moment::After);
        assert!(server.request("DELETE", POD).starts_with("HTTP/1.1 200"));
    }
}

#[test]
fn silent_watch_delivers_its_kept_events_when_the_rule_is_removed() {
    let server = Server::start();
    let mut watch = server.watch();
    server.event("a", 1);
    assert_eq!(watch.versions(1), ["1"]);
    let silent = server.faults.add(Rule::new(Match::watches().resource("pods"), Fault::Silence));
    server.event("a", 2);
    server.event("b", 3);
    watch.0.get_ref().set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert_eq!(watch.versions(1), Vec::<String>::new());
    watch.0.get_ref().set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    server.faults.remove(silent);
    assert_eq!(watch.versions(2), ["2", "3"]);
}

#[test]
fn watches_are_cut() {
    let server = Server::start();
    let mut watch = server.watch();
    server.event("a", 1);
    assert_eq!(watch.versions(1), ["1"]);
    server.faults.cut(Match::watches().resource("pods"));
    assert_eq!(watch.versions(1), Vec::<String>::new());
}

#[test]
fn read_of_older_state_requests_that_version_from_the_server() {
    let server = Server::start();
    server.faults.add(Rule::new(Match::any(), Fault::ServeOlder(7)));
    server.request("GET", "/api/v1/pods?limit=5&resourceVersion=0");
    server.request("GET", "/api/v1/pods?limit=5&continue=abc");
    let reply = server.request("GET", POD);
    assert!(reply.contains(r#""name":"old""#) && reply.contains(r#""kind":"Pod""#), "{reply}");
    assert_eq!(
        server.requests(),
        [
            "GET /api/v1/pods?limit=5&resourceVersion=7&resourceVersionMatch=Exact",
            "GET /api/v1/pods?limit=5&continue=abc",
            "GET /api/v1/namespaces/n/pods?resourceVersion=7&resourceVersionMatch=Exact&fieldSelector=metadata.name%3Dweb",
        ]
    );
}
