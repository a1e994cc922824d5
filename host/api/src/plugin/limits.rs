//! The limits of a plugin's calls.

use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use windlass_core::contract::{JSON_DEPTH_MAX, Limits};

use super::schemas;
use crate::quantity::ByteQuantity;

/// Limits of each call of the plugin. A limit that is not set has the contract's default. A limit above the host's cap
/// (a flag of `windlass run`) is lowered to the cap, and the condition `Granted` names it.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct LimitsSpec {
    /// Largest linear memory of a call, over all memories of the component, in bytes. Default: 64Mi.
    pub memory: Option<ByteQuantity>,
    /// Largest number of elements over all tables of the component; an element takes 8 bytes of the host's memory.
    /// Default: 1048576.
    #[schemars(range(min = 0, max = 10_000_000))]
    pub table_elements: Option<i32>,
    /// Largest number of core instances in the component. Default: 512.
    #[schemars(range(min = 1, max = 10_000))]
    pub instances: Option<i32>,
    /// Longest wall time of a whole call, including host calls, as in `1s`. Default: 1s.
    #[schemars(schema_with = "schemas::duration")]
    pub deadline: Option<kube::core::Duration>,
    /// Largest size of a request to the plugin, in bytes: parent, children, related objects and config. Default: 4Mi.
    pub request_bytes: Option<ByteQuantity>,
    /// Largest size of a response of the plugin, in bytes. Default: 4Mi.
    pub response_bytes: Option<ByteQuantity>,
    /// Largest number of children in a response. Default: 1000.
    #[schemars(range(min = 0, max = 100_000))]
    pub children: Option<i32>,
    /// Largest size of the log lines, span attributes and span events that are kept of a call, in bytes. The host drops
    /// and counts what exceeds it. Default: 64Ki.
    pub log_bytes: Option<ByteQuantity>,
    /// Largest number of events in a response. Default: 16.
    #[schemars(range(min = 0, max = 1000))]
    pub events: Option<i32>,
    /// Largest number of requirements (requests for related objects) in a response. Default: 64.
    #[schemars(range(min = 0, max = 1000))]
    pub requirements: Option<i32>,
    /// Largest nesting depth of each JSON document in a response. Default: 128.
    #[schemars(range(min = 2, max = JSON_DEPTH_MAX))]
    pub json_depth: Option<i32>,
}

impl LimitsSpec {
    /// The limits, with the contract's defaults for limits that are not set.
    ///
    /// # Errors
    /// If a size, number or duration is invalid; the message is for users. The schema rejects most invalid values, but
    /// an older CRD may be installed.
    pub fn resolve(&self) -> Result<Limits, String> {
        let default = Limits::default();
        let deadline = self.deadline.as_ref().map(|time| positive(time).map_err(|error| in_limits("deadline", &error)));
        Ok(Limits {
            memory: bytes("memory", self.memory.as_ref(), default.memory)?,
            table_elements: count("tableElements", self.table_elements, 0..=10_000_000, default.table_elements)?,
            instances: count("instances", self.instances, 1..=10_000, default.instances)?,
            deadline: deadline.transpose()?.unwrap_or(default.deadline),
            request_bytes: bytes("requestBytes", self.request_bytes.as_ref(), default.request_bytes)?,
            response_bytes: bytes("responseBytes", self.response_bytes.as_ref(), default.response_bytes)?,
            children: count("children", self.children, 0..=100_000, default.children)?,
            log_bytes: bytes("logBytes", self.log_bytes.as_ref(), default.log_bytes)?,
            events: count("events", self.events, 0..=1000, default.events)?,
            requirements: count("requirements", self.requirements, 0..=1000, default.requirements)?,
            json_depth: count("jsonDepth", self.json_depth, 2..=JSON_DEPTH_MAX.into(), default.json_depth)?,
        })
    }
}

fn in_limits(field: &str, error: &str) -> String {
    format!("spec.limits.{field}: {error}")
}

fn bytes<T: TryFrom<u64>>(field: &str, wanted: Option<&ByteQuantity>, default: T) -> Result<T, String> {
    let Some(wanted) = wanted else { return Ok(default) };
    let bytes = wanted.bytes().and_then(|bytes| {
        let some = (bytes > 0).then_some(bytes).and_then(|bytes| T::try_from(bytes).ok());
        some.ok_or_else(|| format!("invalid limit {wanted}: must be a size greater than zero, as in 64Mi"))
    });
    bytes.map_err(|error| in_limits(field, &error))
}

fn count(field: &str, wanted: Option<i32>, range: RangeInclusive<i32>, default: usize) -> Result<usize, String> {
    let Some(wanted) = wanted else { return Ok(default) };
    let inside = range.contains(&wanted).then_some(wanted).and_then(|wanted| usize::try_from(wanted).ok());
    inside
        .ok_or_else(|| in_limits(field, &format!("{wanted} is not a number from {} to {}", range.start(), range.end())))
}

/// A duration greater than zero.
///
/// # Errors
/// If the duration is zero or negative. The message is for users; the caller puts the field's name before it.
pub fn positive(duration: &kube::core::Duration) -> Result<Duration, String> {
    let plain = Duration::from(*duration);
    if duration.is_negative() || plain.is_zero() {
        return Err("must be greater than zero".to_owned());
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use serde_json::{Value, json};

    use super::*;
    use crate::Plugin;

    fn resolve(spec: Value) -> Result<Limits, String> {
        serde_json::from_value::<LimitsSpec>(spec).expect("limits").resolve()
    }

    fn schema() -> Value {
        let crd = serde_json::to_value(Plugin::crd()).expect("a CRD");
        crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/limits/properties")
            .expect("limits")
            .clone()
    }

    #[test]
    fn unset_limits_have_the_contracts_defaults() {
        assert_eq!(resolve(json!({})), Ok(Limits::default()));
    }

    #[test]
    fn every_limit_can_be_set() {
        let given = json!({
            "memory": "1Mi", "tableElements": 1, "instances": 2, "deadline": "3s", "requestBytes": "4Ki",
            "responseBytes": "5Ki", "children": 6, "logBytes": "7Ki", "events": 8, "requirements": 9, "jsonDepth": 10,
        });
        let names = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&given), names(&schema()), "left: here, right: in the CRD");
        let limits = Limits {
            memory: 1 << 20,
            table_elements: 1,
            instances: 2,
            deadline: Duration::from_secs(3),
            request_bytes: 4 << 10,
            response_bytes: 5 << 10,
            children: 6,
            log_bytes: 7 << 10,
            events: 8,
            requirements: 9,
            json_depth: 10,
        };
        assert_eq!(resolve(given), Ok(limits));
    }

    #[test]
    fn number_outside_the_schemas_bounds_is_rejected_by_the_host_with_the_field_name() {
        let mut numbers = 0;
        for (name, schema) in schema().as_object().expect("an object") {
            let bound = |field: &str| schema[field].as_f64()?.to_string().parse::<i32>().ok();
            let (Some(min), Some(max)) = (bound("minimum"), bound("maximum")) else { continue };
            numbers += 1;
            for inside in [min, max] {
                assert!(resolve(json!({name: inside})).is_ok(), "{name}: {inside}");
            }
            for outside in [min - 1, max + 1] {
                let error = resolve(json!({name: outside})).expect_err(name);
                assert!(error.contains(&format!("spec.limits.{name}: {outside} is not a number from")), "{error}");
            }
        }
        assert_eq!(numbers, 6);
    }

    #[test]
    fn invalid_quantities_and_durations_are_rejected_with_the_field_name() {
        for name in ["memory", "requestBytes", "responseBytes", "logBytes"] {
            for bad in ["0", "0Mi", "much"] {
                let error = resolve(json!({name: bad})).expect_err(bad);
                assert!(error.starts_with(&format!("spec.limits.{name}: ")) && error.contains("as in 64Mi"), "{error}");
            }
        }
        for bad in ["0s", "-1s"] {
            let error = resolve(json!({"deadline": bad})).expect_err(bad);
            assert_eq!(error, "spec.limits.deadline: must be greater than zero");
        }
    }
}
