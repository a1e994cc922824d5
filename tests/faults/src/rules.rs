//! Which requests get which fault. Decisions depend on the seed and on the number of earlier requests to the same path,
//! so they do not depend on the order in which different requests arrive.

use std::collections::HashMap;
use std::time::Duration;

use crate::{Call, Verb};

/// The requests that a rule applies to. Unset fields match everything.
#[derive(Clone, Debug, Default)]
pub struct Match {
    verbs: Vec<Verb>,
    resource: Option<String>,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    only_writes: bool,
}

impl Match {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests with one of these verbs.
    pub fn verbs(verbs: &[Verb]) -> Self {
        Self { verbs: verbs.to_vec(), ..Self::default() }
    }

    /// Watches.
    pub fn watches() -> Self {
        Self::verbs(&[Verb::Watch])
    }

    /// Requests that may change an object, without Events and Leases.
    pub fn writes() -> Self {
        Self { only_writes: true, ..Self::default() }
    }

    /// Only this resource, by its plural.
    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Only this subresource; empty for the object itself.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// Only this namespace. Watches and lists across namespaces have none: for those, the field is compared with each
    /// event.
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only the object of this name.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Whether the rule applies to a request.
    pub fn matches(&self, call: &Call) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|wanted| wanted == value);
        (self.verbs.is_empty() || self.verbs.contains(&call.verb))
            && is(&self.resource, &call.resource)
            && is(&self.subresource, &call.subresource)
            && is(&self.namespace, &call.namespace)
            && is(&self.name, &call.name)
            && (!self.only_writes || (call.is_write() && !call.is_background()))
    }
}

/// What happens to a request or to a watch event.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The proxy responds with this HTTP status and a `Status` object; the API server does not receive the request.
    Status(u16),
    /// The connection is closed before the request reaches the API server.
    CloseBefore,
    /// The response is delayed by this time.
    Delay(Duration),
    /// Lists and gets return the state at this resource version, as from an older API server.
    ServeOlder(u64),
    /// A watch delivers nothing. It is silenced after the proxy has read its next event, so no event slips through.
    /// When the rule is removed, the proxy delivers that event, and the stream continues.
    Silence,
}

/// A fault, and the requests that get it.
#[derive(Clone, Debug)]
pub struct Rule {
    which: Match,
    fault: Fault,
    probability: f64,
}

impl Rule {
    /// Every request that matches.
    pub fn new(which: Match, fault: Fault) -> Self {
        Self { which, fault, probability: 1.0 }
    }

    /// Each request that matches with this probability (0 to 1).
    #[must_use]
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }
}

/// Names a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId(u64);

/// The rules in force.
pub(crate) struct Rules {
    seed: u64,
    next: u64,
    active: Vec<Active>,
}

struct Active {
    id: RuleId,
    rule: Rule,
    /// The number of requests to each path, for draws that do not depend on other paths.
    asked: HashMap<String, u64>,
}

impl Rules {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, next: 0, active: Vec::new() }
    }

    pub(crate) fn add(&mut self, rule: Rule) -> RuleId {
        let id = RuleId(self.next);
        self.next += 1;
        self.active.push(Active { id, rule, asked: HashMap::new() });
        id
    }

    pub(crate) fn remove(&mut self, id: RuleId) {
        self.active.retain(|active| active.id != id);
    }

    pub(crate) fn clear(&mut self) {
        self.active.clear();
    }

    /// The fault of a request: that of the first rule that applies.
    pub(crate) fn of_request(&mut self, call: &Call) -> Option<Fault> {
        let seed = self.seed;
        let applies = |active: &&mut Active| active.rule.fault != Fault::Silence && active.rule.which.matches(call);
        self.active.iter_mut().filter(applies).find_map(|active| active.draw(seed, call))
    }

    /// Whether a watch is silent, by its own names or, for an event, by those of the event's object. The check does not count as a request,
    /// because it is repeated.
    pub(crate) fn is_silent(&self, call: &Call) -> bool {
        self.active.iter().any(|active| active.rule.fault == Fault::Silence && active.rule.which.matches(call))
    }
}

impl Active {
    fn draw(&mut self, seed: u64, call: &Call) -> Option<Fault> {
        let path = format!("{:?} {} {} {} {}", call.verb, call.resource, call.subresource, call.namespace, call.name);
        let asked = self.asked.entry(path.clone()).or_default();
        *asked += 1;
        let happens = unit(hash(seed, self.id.0, &path, *asked)) < self.rule.probability;
        happens.then(|| self.rule.fault.clone())
    }
}

/// FNV-1a and a final mix: the same in every build, unlike the standard library's hasher.
fn hash(seed: u64, rule: u64, path: &str, count: u64) -> u64 {
    let bytes = [seed.to_le_bytes(), rule.to_le_bytes(), count.to_le_bytes()];
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes.iter().flatten().chain(path.as_bytes()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// A number from 0 up to 1.
fn unit(hash: u64) -> f64 {
    let high = u32::try_from(hash >> 32).unwrap_or(u32::MAX);
    f64::from(high) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(verb: Verb, resource: &str, name: &str) -> Call {
        Call {
            verb,
            group: String::new(),
            resource: resource.to_owned(),
            subresource: String::new(),
            namespace: "n".to_owned(),
            name: name.to_owned(),
        }
    }

    fn draws(seed: u64, order: &[&str]) -> HashMap<String, Vec<bool>> {
        let mut rules = Rules::new(seed);
        rules.add(Rule::new(Match::any(), Fault::Status(503)).probability(0.5));
        let mut drawn: HashMap<String, Vec<bool>> = HashMap::new();
        for name in order {
            let failed = rules.of_request(&call(Verb::Create, "pods", name)).is_some();
            drawn.entry((*name).to_owned()).or_default().push(failed);
        }
        drawn
    }

    #[test]
    fn draws_depend_on_the_seed_and_not_on_the_order_of_other_requests() {
        let one: Vec<_> = (0..200).map(|at| if at % 2 == 0 { "a" } else { "b" }).collect();
        let other: Vec<_> = (0..200).map(|at| if at < 100 { "a" } else { "b" }).collect();
        assert_eq!(draws(1, &one), draws(1, &other));
        assert_ne!(draws(1, &one), draws(2, &one));
        let failed = draws(1, &one).values().flatten().filter(|failed| **failed).count();
        assert!((60..140).contains(&failed), "{failed} of 200");
    }

    #[test]
    fn silence_does_not_affect_requests() {
        let mut rules = Rules::new(1);
        let id = rules.add(Rule::new(Match::watches().resource("pods"), Fault::Silence));
        let watch = call(Verb::Watch, "pods", "");
        assert_eq!(rules.of_request(&watch), None);
        assert!(rules.is_silent(&watch) && !rules.is_silent(&call(Verb::Watch, "secrets", "")));
        rules.remove(id);
        assert!(!rules.is_silent(&watch));
    }

    #[test]
    fn match_for_writes_excludes_events_and_leases() {
        let writes = Match::writes();
        assert!(writes.matches(&call(Verb::Delete, "pods", "a")));
        assert!(!writes.matches(&call(Verb::Create, "events", "a")));
        assert!(!writes.matches(&call(Verb::Update, "leases", "a")));
        assert!(!writes.matches(&call(Verb::List, "pods", "")));
    }
}
