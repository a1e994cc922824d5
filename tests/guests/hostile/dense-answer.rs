//! Answers with 4 MB of the smallest JSON values that there are, which take many times as much once they are read. The
//! host stops reading where they take more than it allows for, and says so.

use hostile_guests::{Answer, Hostile, Request, response};

struct DenseAnswer;

impl Hostile for DenseAnswer {
    const KIND: &str = "DenseAnswer";

    fn attack(_request: &Request) -> Answer {
        let values = vec!["[0]"; 1_000_000].join(",");
        let child =
            format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"dense"}},"data":[{values}]}}"#);
        Ok(response([child.into_bytes()]))
    }
}

hostile_guests::export!(DenseAnswer);
