//! Returns a child without a name that asks the API server for one: each reconcile would create another. The host
//! calls the whole answer malformed.

use hostile_guests::{Answer, Hostile, Request, response};

struct GenerateName;

impl Hostile for GenerateName {
    const KIND: &str = "GenerateName";

    fn attack(_request: &Request) -> Answer {
        Ok(response([br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"many-"}}"#.to_vec()]))
    }
}

hostile_guests::export!(GenerateName);
