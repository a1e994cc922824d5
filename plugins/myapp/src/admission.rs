//! Judges applications before they are stored, and fills in what was left out.

use serde::Deserialize;
use windlass_plugin::{Admission, Failure, Review, Value, Verdict};

use crate::{MyApp, MyAppSpec};

#[derive(Deserialize)]
struct WithSpec {
    spec: MyAppSpec,
}

impl Admission for MyApp {
    fn review(review: Review) -> Verdict {
        judged(&review).unwrap_or_else(Verdict::from)
    }
}

fn judged(review: &Review) -> Result<Verdict, Failure> {
    if review.is_being_deleted() {
        return Ok(Verdict::Allow(Vec::new()));
    }
    let (Some(object), Some(WithSpec { spec })) = (review.object::<Value>()?, review.object()?) else {
        return Ok(Verdict::Deny("there is no object to judge".to_owned()));
    };
    spec.check()?;
    Ok(Verdict::with_defaults(object, &spec))
}
