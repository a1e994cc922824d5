//! Returns 4 MB of the smallest possible JSON values, which need many times as much memory once they are parsed. The
//! host stops parsing at its memory limit, and the parent's condition reports it.

use hostile_guests::{Hostile, Outcome, Request, response};

struct DenseAnswer;

impl Hostile for DenseAnswer {
    const KIND: &str = "DenseAnswer";

    fn attack(_request: &Request) -> Outcome {
        let values = vec!["[0]"; 1_000_000].join(",");
        let child =
            format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"dense"}},"data":[{values}]}}"#);
        Ok(response([child.into_bytes()]))
    }
}

hostile_guests::export!(DenseAnswer);
