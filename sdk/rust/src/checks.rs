//! Checks of a spec that its schema cannot say, with messages that name the field. The host checks the rest of the schema before
//! each call; CEL rules are evaluated by the API server alone, when an object is written.
//!
//! ```
//! use windlass_plugin::{Failure, checks};
//!
//! let paths = ["/data", "/data"];
//! let twice = Failure::invalid_field("spec.mounts[1].path", "\"/data\" is given twice");
//! assert_eq!(checks::distinct("spec.mounts", "path", paths), Err(twice));
//! ```

use std::{collections::BTreeSet, fmt::Display};

use serde_json::Value;

use crate::{Failure, Quantity, json, spec::ResourceList};

type Checked = Result<(), Failure>;

fn ensure(holds: bool, field: &str, value: impl Display, rule: &str) -> Checked {
    if holds { Ok(()) } else { Err(Failure::invalid_field(field, format!("{value} {rule}"))) }
}

/// Checks that a quantity is greater than zero. In a schema, [`positive_rule`] is the same rule.
///
/// # Errors
///
/// [`Failure::invalid_field`], with the quantity.
pub fn positive(field: &str, quantity: &Quantity) -> Checked {
    ensure(quantity.is_positive(), field, quantity, "is not more than 0")
}

/// The pattern of a DNS subdomain, for a schema: `#[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]`.
pub const DNS_SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// Checks that no two items of a list have the same value in a field. `list` is the list, `field` the field of its items: the
/// message names `spec.env[1].name`.
///
/// # Errors
///
/// [`Failure::invalid_field`], with the value.
pub fn distinct<'a>(list: &str, field: &str, values: impl IntoIterator<Item = &'a str>) -> Checked {
    let mut seen = BTreeSet::new();
    for (index, value) in values.into_iter().enumerate() {
        ensure(seen.insert(value), &format!("{list}[{index}].{field}"), format_args!("{value:?}"), "is given twice")?;
    }
    Ok(())
}

/// The first resource whose request is greater than its limit, with both quantities; none if there is none. The API server rejects
/// such a container.
pub fn request_over_limit<'a>(
    requests: &'a ResourceList,
    limits: &'a ResourceList,
) -> Option<(&'a str, &'a Quantity, &'a Quantity)> {
    requests.iter().find_map(|(resource, request)| {
        let limit = limits.get(resource).filter(|limit| request > *limit)?;
        Some((&**resource, request, limit))
    })
}

/// A CEL rule of a schema: this field, a [`Quantity`], must be greater than zero.
/// `#[schemars(extend("x-kubernetes-validations" = [positive_rule("cpu")]))]` on the struct with the field; [`positive`]
/// checks the same.
pub fn positive_rule(field: &str) -> Value {
    json::object([
        ("rule", format!("quantity(string(self.{field})).isGreaterThan(quantity('0'))").into()),
        ("message", format!("{field} must be more than 0").into()),
        ("fieldPath", format!(".{field}").into()),
    ])
}

#[cfg(test)]
mod tests {
    use super::request_over_limit;
    use crate::{Quantity, spec::ResourceList};

    #[test]
    fn a_request_over_its_limit_is_found() {
        let list = |amounts: &[(&str, &'static str)]| -> ResourceList {
            amounts.iter().map(|(name, amount)| ((*name).to_owned(), Quantity::from_static(amount))).collect()
        };
        let limits = list(&[("cpu", "1"), ("memory", "1Gi")]);
        assert_eq!(request_over_limit(&list(&[("cpu", "1000m"), ("gpu", "4")]), &limits), None);
        let requests = list(&[("cpu", "500m"), ("memory", "2Gi")]);
        let expected = ("memory", &Quantity::from_static("2Gi"), &Quantity::from_static("1Gi"));
        assert_eq!(request_over_limit(&requests, &limits), Some(expected));
    }
}
