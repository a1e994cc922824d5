//! Checks that many specs need, with messages that name the field. The schema of a CRD has the same rules and rejects a
//! write, but an object may be older than the schema, so a plugin checks its spec as well.
//!
//! ```
//! use windlass_plugin::{Failure, checks};
//!
//! assert_eq!(checks::range("spec.replicas", 3, 1..=9), Ok(()));
//! assert_eq!(
//!     checks::range("spec.replicas", 12, 1..=9),
//!     Err(Failure::invalid_field("spec.replicas", "12 is not between 1 and 9"))
//! );
//! ```

use std::{collections::BTreeSet, fmt::Display, ops::RangeInclusive};

use serde_json::Value;

use crate::{
    Failure, Quantity, json,
    spec::{EnvVar, ResourceList},
};

type Checked = Result<(), Failure>;

fn ensure(holds: bool, field: &str, value: impl Display, rule: &str) -> Checked {
    if holds { Ok(()) } else { Err(Failure::invalid_field(field, format!("{value} {rule}"))) }
}

/// Checks that a number is within bounds.
///
/// # Errors
///
/// [`Failure::invalid`] with the field and the value, as all checks of this module.
pub fn range(field: &str, value: u32, range: RangeInclusive<u32>) -> Checked {
    let rule = format!("is not between {} and {}", range.start(), range.end());
    ensure(range.contains(&value), field, value, &rule)
}

/// Checks that a quantity is greater than zero. In a schema, [`positive_rule`] is the same rule.
///
/// # Errors
///
/// [`Failure::invalid`], as [`range`].
pub fn positive(field: &str, quantity: &Quantity) -> Checked {
    ensure(quantity.is_positive(), field, quantity, "is not more than 0")
}

/// Checks that an image is neither empty nor has whitespace: the API server accepts every other text.
///
/// # Errors
///
/// [`Failure::invalid`], as [`range`].
pub fn image(field: &str, image: &str) -> Checked {
    let holds = !image.is_empty() && !image.contains(char::is_whitespace);
    ensure(holds, field, format_args!("{image:?}"), "is not the name of an image")
}

/// Checks that a name is a DNS label (RFC 1123).
///
/// # Errors
///
/// [`Failure::invalid`], as [`range`].
pub fn dns_label(field: &str, name: &str) -> Checked {
    let rule = "is not a DNS label: at most 63 of a-z, 0-9 and -, not beginning or ending with -";
    ensure(name.len() <= 63 && is_labelled(name), field, format_args!("{name:?}"), rule)
}

/// The pattern of a DNS subdomain, for a schema: `#[schemars(length(min = 1, max = 253), regex(pattern = DNS_SUBDOMAIN))]`.
/// [`dns_subdomain`] checks the same.
pub const DNS_SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// Checks that a name is a DNS subdomain (RFC 1123): labels with dots between them. Like the API server, it bounds the length
/// of the whole name alone.
///
/// # Errors
///
/// [`Failure::invalid`], as [`range`].
pub fn dns_subdomain(field: &str, name: &str) -> Checked {
    let holds = name.len() <= 253 && name.split('.').all(is_labelled);
    let rule = "is not a DNS name: labels of a-z, 0-9 and - with dots between them, at most 253 characters";
    ensure(holds, field, format_args!("{name:?}"), rule)
}

/// Whether a name has the characters of a DNS label.
fn is_labelled(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.bytes().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}

/// Checks the names of environment variables: their characters, and that each is given once.
///
/// # Errors
///
/// [`Failure::invalid`], as [`range`].
pub fn env_vars(field: &str, variables: &[EnvVar]) -> Checked {
    for (index, EnvVar { name, .. }) in variables.iter().enumerate() {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let holds = !name.is_empty() && name.bytes().all(inner) && !name.starts_with(|c: char| c.is_ascii_digit());
        let rule = "is not the name of an environment variable: A-Z, a-z, 0-9, _, - and ., not beginning with a digit";
        ensure(holds, &format!("{field}[{index}].name"), format_args!("{name:?}"), rule)?;
    }
    distinct(field, "name", variables.iter().map(|variable| &*variable.name))
}

/// Checks that no two items of a list have the same value in a field. `list` is the list, `field` the field of its items: the
/// message names `spec.env[1].name`.
///
/// # Errors
///
/// [`Failure::invalid`], as [`range`].
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
    use super::{dns_label, dns_subdomain, env_vars, image, request_over_limit};
    use crate::{
        Failure, Quantity,
        spec::{EnvVar, ResourceList},
    };

    #[test]
    fn dns_names_are_checked_like_the_api_server_does() {
        let long = "a".repeat(64);
        for (name, label, full) in [
            ("a", true, true),
            ("a-1", true, true),
            ("1a", true, true),
            ("a.b", false, true),
            ("", false, false),
            ("-a", false, false),
            ("a-", false, false),
            ("A", false, false),
            ("a_b", false, false),
            ("a..b", false, false),
            ("a.b.", false, false),
            (&long, false, true),
        ] {
            assert_eq!((dns_label("f", name).is_ok(), dns_subdomain("f", name).is_ok()), (label, full), "{name:?}");
        }
        let longest = [&*"a".repeat(63); 4].join(".");
        assert_eq!((dns_subdomain("f", &longest[..253]).is_ok(), dns_subdomain("f", &longest).is_ok()), (true, false));
    }

    #[test]
    fn the_message_names_the_field_and_its_value() {
        let variables = |names: &[&str]| -> Vec<_> {
            names.iter().map(|name| EnvVar { name: (*name).to_owned(), value: String::new() }).collect()
        };
        let check = |names: &[&str]| env_vars("spec.env", &variables(names));
        let wrong = check(&["A", "1B"]);
        assert!(matches!(wrong, Err(Failure::Invalid(why)) if why.field.as_deref() == Some("spec.env[1].name")
            && why.message.starts_with("\"1B\" is not the name")));
        let twice = check(&["A", "B", "A"]);
        assert_eq!(twice, Err(Failure::invalid_field("spec.env[2].name", "\"A\" is given twice")));
        assert_eq!(check(&["A", "_b.c-d"]), Ok(()));
        assert_eq!(
            image("spec.image", "a b"),
            Err(Failure::invalid_field("spec.image", "\"a b\" is not the name of an image"))
        );
    }

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
