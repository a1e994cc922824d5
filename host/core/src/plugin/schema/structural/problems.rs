//! What an object, or a Plugin's config, has that its schema does not allow.

use serde_json::{Map, Value};

use super::pattern::{self, COMPILED, PATTERN_LENGTH_MAX, PATTERNS_KEPT, compiled};
use super::{is_true, join, knows, object, property};
use crate::value::bounded::bounded;

/// Largest number of problems that are listed; further ones are counted.
pub(super) const SHOWN: usize = 20;
/// Largest number of known fields that a problem lists.
const KNOWN_SHOWN: usize = 20;
/// Largest amount of work for one value: about the number of comparisons. A component may declare a schema of which each
/// item of a list costs much.
const STEPS_MAX: usize = 4_000_000;
/// The same for a check before each call: less than a tenth of a second.
const STEPS_OF_CALL_MAX: usize = 1_000_000;
/// The part of [`STEPS_MAX`] that the compilation of a pattern needs.
const STEPS_OF_PATTERN: usize = 10_000;
/// Largest amount of work for the patterns of one value: characters, times the states of their patterns.
const MATCHED_MAX: usize = 20_000_000;
/// Largest number of characters of a text in a message.
const TEXT_SHOWN: usize = 100;
/// Largest number of characters of a path in a message.
const PATH_SHOWN: usize = 500;

/// The problems of a whole object, each with the path of its field. Metadata and status are not validated.
pub fn problems(schema: &Value, object: &Value) -> Vec<String> {
    let mut object = object.clone();
    if let Some(object) = object.as_object_mut() {
        object.retain(|name, _| !["apiVersion", "kind", "metadata", "status"].contains(&name.as_str()));
    }
    problems_at(schema, &object, "")
}

/// The problems of a Plugin's `spec.config` in the schema that its component declares. Of keywords that a CRD cannot have,
/// only the names of fields count; an object whose schema names no field may have any. In doubt, there is no problem.
pub fn problems_of_config(schema: &Value, config: &Value) -> Vec<String> {
    let mut found = Problems { rules: Rules::Config, ..Problems::default() };
    // The patterns have their own limit, and none of them stays in memory.
    let of_crds = COMPILED.replace(bounded(PATTERNS_KEPT));
    found.check(schema, config, "spec.config");
    COMPILED.set(of_crds);
    found.into_lines()
}

/// The problems of a part of an object.
pub fn problems_at(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let mut found = Problems::default();
    found.check(schema, value, path);
    found.into_lines()
}

/// The problems of a part of a parent that the API server has stored, by the schema that its component declares. The cluster's schema may
/// have more fields, so that unknown ones are accepted; in doubt, there is no problem.
pub fn problems_of_stored(schema: &Value, value: &Value, path: &str) -> Vec<String> {
    let mut found = Problems { rules: Rules::Stored, is_open: true, ..Problems::default() };
    found.check(schema, value, path);
    // What costs too much is left to the API server.
    if found.is_too_costly() { found.lines } else { found.into_lines() }
}

/// The first whole number beyond 64 bits.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// Whether a number is outside of a bound.
type IsOutside = fn(&f64, &f64) -> bool;

/// What a schema describes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Rules {
    /// Objects of a CRD.
    #[default]
    Object,
    /// The config of a plugin, by a schema that no API server has seen: it may be any JSON Schema.
    Config,
    /// Objects that the API server has accepted, perhaps by another version of the schema.
    Stored,
}

#[derive(Default)]
struct Problems {
    lines: Vec<String>,
    more: usize,
    rules: Rules,
    /// Whether unknown fields are accepted, because the schema only constrains.
    is_open: bool,
    /// Whether only their number is asked for.
    is_quiet: bool,
    steps: usize,
    /// Work for patterns.
    matched: usize,
}

impl Problems {
    /// Adds a problem, whose text is made only if it is shown.
    fn add(&mut self, path: &str, problem: impl FnOnce() -> String) {
        // What follows from a check that was given up is not certain.
        if self.rules == Rules::Stored && self.is_too_costly() {
            return;
        }
        if self.lines.len() < SHOWN && !self.is_quiet {
            let path = if path.is_empty() { "the object" } else { path };
            // Names of fields are of users: each line of a message is short.
            let (start, more) = beginning(path, PATH_SHOWN);
            self.lines.push(format!("{start}{more}: {}", problem()));
        } else {
            self.more += 1;
        }
    }

    /// Adds a problem of a field, whose path is built only if it is shown.
    fn add_of_field(&mut self, path: &str, name: &str, problem: impl FnOnce() -> String) {
        let is_shown = self.lines.len() < SHOWN && !self.is_quiet;
        let path = if is_shown { join(path, name) } else { String::new() };
        self.add(&path, problem);
    }

    fn into_lines(mut self) -> Vec<String> {
        if self.more > 0 {
            self.lines.push(format!("and {} more problems", self.more));
        }
        if self.is_too_costly() {
            self.lines.push("the value is too large for its schema: checking it would take too long".to_owned());
        }
        self.lines
    }

    /// Counts work; returns false if the value is too costly to be checked.
    fn afford(&mut self, steps: usize) -> bool {
        self.steps = self.steps.saturating_add(steps);
        !self.is_too_costly()
    }

    fn is_too_costly(&self) -> bool {
        self.steps > if self.rules == Rules::Stored { STEPS_OF_CALL_MAX } else { STEPS_MAX }
    }

    fn check(&mut self, schema: &Value, value: &Value, path: &str) {
        if !self.afford(1) {
            return;
        }
        if value.is_null() && is_true(schema, "nullable") {
            return;
        }
        if let Some(problem) = wrong_type(schema, value) {
            return self.add(path, || problem);
        }
        let allowed = schema.get("enum").and_then(Value::as_array);
        let is_one = |all: &[Value]| all.iter().any(|one| is_same(one, value));
        if let Some(allowed) = allowed.filter(|all| self.afford(all.len()) && !is_one(all)) {
            self.add(path, || {
                let allowed: Vec<_> = allowed.iter().take(KNOWN_SHOWN).map(shown).collect();
                format!("unsupported value {}; supported are {}", shown(value), allowed.join(", "))
            });
        }
        match value {
            Value::Object(fields) => self.check_object(schema, fields, path),
            Value::Array(items) => self.check_array(schema, items, path),
            Value::String(text) => self.check_text(schema, text, path),
            Value::Number(number) => self.check_number(schema, number, path),
            Value::Null | Value::Bool(_) => {}
        }
        self.check_logic(schema, value, path);
    }

    fn check_object(&mut self, schema: &Value, fields: &Map<String, Value>, path: &str) {
        let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if !self.afford(required.len().saturating_add(fields.len())) {
            return;
        }
        for name in required.iter().filter_map(Value::as_str) {
            let has_default = || property(schema, name).is_some_and(|one| one.get("default").is_some());
            if !fields.contains_key(name) && !has_default() {
                self.add_of_field(path, name, || "required, and missing".to_owned());
            }
        }
        self.check_bound(schema, ("minProperties", "maxProperties"), fields.len(), "fields", path);
        for (name, field) in fields {
            // The path is built for each of them.
            if !self.afford(path.len() / 16) {
                return;
            }
            let path = join(path, name);
            let is_config = self.rules == Rules::Config;
            let is_own = object(schema, "properties").is_some_and(|own| own.contains_key(name));
            match property(schema, name) {
                // It is none of the additional fields, and the schema of the pattern is not looked at.
                _ if is_config && !is_own && self.has_pattern_for(schema, name) => {}
                Some(of_field) => {
                    // Another part of a config's schema may name more fields of this one.
                    let is_open = self.is_open || is_config && self.is_named_elsewhere(schema, name);
                    let before = std::mem::replace(&mut self.is_open, is_open);
                    self.check(of_field, field, &path);
                    self.is_open = before;
                }
                None if self.is_open || knows(schema, name) => {}
                None if !is_config => {
                    self.add(&path, || {
                        "unknown field; the API server drops it, or refuses it under strict validation".to_owned()
                    });
                }
                None if is_closed(schema)
                    || schema.get("properties").is_some() && !self.is_named_elsewhere(schema, name) =>
                {
                    let known = object(schema, "properties").into_iter().flatten().map(|(name, _)| name.as_str());
                    let known: Vec<_> = known.take(KNOWN_SHOWN).collect();
                    self.add(&path, || format!("unknown field; known are {}", known.join(", ")));
                }
                None => {}
            }
        }
    }

    /// Whether a config's schema may name a field of its object outside of its `properties`. References are not followed, so
    /// that they may name any.
    fn is_named_elsewhere(&mut self, schema: &Value, name: &str) -> bool {
        // A config that is too costly is refused anyway.
        !self.afford(1)
            || ["$ref", "$dynamicRef", "$recursiveRef"].iter().any(|keyword| schema.get(keyword).is_some())
            || schema.get("unevaluatedProperties").is_some_and(|fields| *fields != Value::Bool(false))
            || self.has_pattern_for(schema, name)
            || parts(schema).any(|part| knows(part, name) || self.is_named_elsewhere(part, name))
    }

    /// Whether `patternProperties` may name a field.
    fn has_pattern_for(&mut self, schema: &Value, name: &str) -> bool {
        let mut patterns = object(schema, "patternProperties").into_iter().flatten();
        patterns.any(|(pattern, _)| self.matches(pattern, name).unwrap_or(true))
    }

    fn check_array(&mut self, schema: &Value, items: &[Value], path: &str) {
        self.check_bound(schema, ("minItems", "maxItems"), items.len(), "items", path);
        let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).into_iter().flatten();
        let keys: Vec<_> = keys.filter_map(Value::as_str).collect();
        if !self.afford(items.len().saturating_add(keys.len())) {
            return;
        }
        let list_type = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
        for (at, item) in items.iter().enumerate() {
            if !self.afford(path.len() / 16) {
                return;
            }
            let path = format!("{path}[{at}]");
            let same = |other: &Value| match list_type {
                Some("set") => other == item,
                Some("map") => keys.iter().all(|key| other.get(key) == item.get(key)),
                _ => false,
            };
            let cost = at.saturating_mul(keys.len().max(1));
            if matches!(list_type, Some("set" | "map")) && self.afford(cost) && items.iter().take(at).any(same) {
                match (&*keys, keys.first().and_then(|key| item.get(key))) {
                    ([key], Some(value)) => {
                        self.add_of_field(&path, key, || format!("{} is given twice", shown(value)));
                    }
                    _ => self.add(&path, || "is given twice".to_owned()),
                }
            }
            if let Some(schema) = schema.get("items") {
                self.check(schema, item, &path);
            }
        }
    }

    fn check_text(&mut self, schema: &Value, text: &str, path: &str) {
        self.check_bound(schema, ("minLength", "maxLength"), text.chars().count(), "characters", path);
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
            // A pattern that cannot be read is left to the API server.
            if self.matches(pattern, text) == Some(false) {
                self.add(path, || match pattern::noun(pattern) {
                    Some(noun) => format!("{} is not {noun}", quoted(text)),
                    None => format!("{} does not match the pattern {pattern}", quoted(text)),
                });
            }
        }
        let format = schema.get("format").and_then(Value::as_str).filter(|_| self.rules != Rules::Stored);
        let is_wrong = match format {
            Some("date-time") => text.parse::<jiff::Timestamp>().is_err(),
            Some("date") => text.parse::<jiff::civil::Date>().is_err(),
            // The types of addresses alone: this crate does no I/O.
            Some("ipv4") => text.parse::<core::net::Ipv4Addr>().is_err(),
            Some("ipv6") => text.parse::<core::net::Ipv6Addr>().is_err(),
            // Other formats are checked by the API server only.
            _ => false,
        };
        if is_wrong {
            self.add(path, || format!("{} has not the format {}", quoted(text), format.unwrap_or_default()));
        }
    }

    /// Whether a text matches a pattern; `None` if that is not known. A text that costs too much to be matched is not, and makes a config
    /// or a file too costly.
    fn matches(&mut self, pattern: &str, text: &str) -> Option<bool> {
        let is_new = pattern.len() <= PATTERN_LENGTH_MAX && COMPILED.with_borrow(|all| !all.contains(pattern));
        if !self.afford(if is_new { STEPS_OF_PATTERN } else { 1 }) {
            return None;
        }
        let pattern = compiled(pattern)?;
        self.matched = self.matched.saturating_add(pattern.cost(text));
        if self.matched > MATCHED_MAX {
            if self.rules != Rules::Stored {
                self.steps = usize::MAX;
            }
            return None;
        }
        Some(pattern.is_match(text))
    }

    fn check_number(&mut self, schema: &Value, number: &serde_json::Number, path: &str) {
        let Some(found) = number.as_f64() else { return };
        let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
        let bounds: [(_, _, [IsOutside; 2], _); 2] = [
            ("minimum", "exclusiveMinimum", [f64::lt, f64::le], "less"),
            ("maximum", "exclusiveMaximum", [f64::gt, f64::ge], "more"),
        ];
        for (keyword, exclusive, [is_beyond, is_at_or_beyond], how) in bounds {
            let excludes = is_true(schema, exclusive);
            let (is_outside, kind) = if excludes { (is_at_or_beyond, "exclusive ") } else { (is_beyond, "") };
            if let Some(bound) = bound(keyword).filter(|bound| is_outside(&found, bound)) {
                self.add(path, || format!("{number} is {how} than the {kind}{keyword} {bound}"));
            }
        }
        if let Some(step) = bound("multipleOf").filter(|step| *step > 0.0) {
            let times = found / step;
            if (times - times.round()).abs() > 1e-9 * times.abs().max(1.0) {
                self.add(path, || format!("{number} is no multiple of {step}"));
            }
        }
        // A whole number may be written as 1.0.
        let is_outside = match schema.get("format").and_then(Value::as_str) {
            Some("int32") => !(f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&found),
            Some("int64") => !number.is_i64() && !(-TWO_TO_63..TWO_TO_63).contains(&found),
            _ => false,
        };
        if is_outside {
            self.add(path, || format!("{number} is outside of its format"));
        }
    }

    fn check_bound(&mut self, schema: &Value, (min, max): (&str, &str), found: usize, what: &str, path: &str) {
        let bound = |name: &str| schema.get(name).and_then(Value::as_u64).and_then(|bound| usize::try_from(bound).ok());
        if let Some(least) = bound(min).filter(|least| found < *least) {
            self.add(path, || format!("{found} {what}, and at least {least} are required"));
        }
        if let Some(most) = bound(max).filter(|most| found > *most) {
            self.add(path, || format!("{found} {what}, and at most {most} are allowed"));
        }
    }

    /// Checks `allOf`, `anyOf`, `oneOf` and `not`: in a structural schema they only constrain, and define no fields. So a
    /// schema inside them accepts fields that it does not name: they belong to the outer schema.
    fn check_logic(&mut self, schema: &Value, value: &Value, path: &str) {
        let all = |name: &str| schema.get(name).and_then(Value::as_array).into_iter().flatten();
        for part in all("allOf") {
            let is_open = std::mem::replace(&mut self.is_open, true);
            self.check(part, value, path);
            self.is_open = is_open;
        }
        let is_any = |found: &mut Self| all("anyOf").any(|part| found.fits(part, value, path));
        if all("anyOf").next().is_some() && !is_any(self) {
            self.add(path, || "it fits none of anyOf".to_owned());
        }
        let count = all("oneOf").filter(|part| self.fits(part, value, path)).count();
        // A part of a config's schema may have keywords that are ignored, and then only seems to fit.
        let is_exact = self.rules != Rules::Config;
        if all("oneOf").next().is_some() && (count == 0 || is_exact && count > 1) {
            self.add(path, || format!("it fits {count} of oneOf, and must fit one"));
        }
        if is_exact && schema.get("not").is_some_and(|part| self.fits(part, value, path)) {
            self.add(path, || "it fits what `not` forbids".to_owned());
        }
    }

    /// Whether the value has no problem in a schema that only constrains.
    fn fits(&mut self, schema: &Value, value: &Value, path: &str) -> bool {
        let Self { rules, steps, matched, .. } = *self;
        let mut found = Self { is_open: true, is_quiet: true, rules, steps, matched, ..Self::default() };
        found.check(schema, value, path);
        (self.steps, self.matched) = (found.steps, found.matched);
        found.more == 0 && !self.is_too_costly()
    }
}

fn wrong_type(schema: &Value, value: &Value) -> Option<String> {
    if is_true(schema, "x-kubernetes-int-or-string") {
        let fits = value.is_string() || is_integer(value);
        return (!fits).then(|| format!("must be an integer or a string, and is {}", type_of(value)));
    }
    let wanted = schema.get("type").and_then(Value::as_str)?;
    let fits = match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => is_integer(value),
        "number" => value.is_number(),
        _ => true,
    };
    (!fits).then(|| format!("must be of type {wanted}, and is {}", type_of(value)))
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn type_of(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => format!("the boolean {value}"),
        Value::Number(_) => format!("the number {value}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// The parts of a config's schema that may name fields of the same object.
fn parts(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(move |keyword| schema.get(keyword)?.as_array());
    let maps = ["dependentSchemas", "dependencies"].into_iter().filter_map(move |keyword| object(schema, keyword));
    let single = ["if", "then", "else"].into_iter().filter_map(move |keyword| schema.get(keyword));
    lists.flatten().chain(maps.flat_map(Map::values)).chain(single)
}

/// Whether the API server takes two values for the same: 1.0 is 1.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        _ => one == other,
    }
}

/// A value as a message shows it: not more than the beginning of a long text.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(_) | Value::Object(_) => type_of(value),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn quoted(text: &str) -> String {
    let (start, more) = beginning(text, TEXT_SHOWN);
    format!("{start:?}{more}")
}

/// The first characters of a text, and a sign if there are more.
fn beginning(text: &str, most: usize) -> (&str, &'static str) {
    match text.char_indices().nth(most) {
        Some((end, _)) => (text.split_at(end).0, "…"),
        None => (text, ""),
    }
}

fn is_closed(schema: &Value) -> bool {
    schema.get("additionalProperties") == Some(&Value::Bool(false))
}
