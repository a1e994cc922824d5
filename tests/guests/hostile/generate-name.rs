//! Returns a child without a name, for which the API server would choose one: each reconcile would create another
//! child. The whole response is malformed.

use hostile_guests::{Hostile, Outcome, Request, response};

struct GenerateName;

impl Hostile for GenerateName {
    const KIND: &str = "GenerateName";

    fn attack(_request: &Request) -> Outcome {
        Ok(response([br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"many-"}}"#.to_vec()]))
    }
}

hostile_guests::export!(GenerateName);
