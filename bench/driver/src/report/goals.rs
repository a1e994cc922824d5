//! The goals: for each one that was measured, a line with its figures and whether it is met.

use std::collections::BTreeMap;

use super::{Figures, MB};
use crate::contestant::Contestant;
use crate::failover::Failover;
use crate::neighbours::Beside;
use crate::process::as_float;
use crate::scale::Resync;
use crate::settings::CHILDREN;
use crate::starts::Starts;
use crate::stats::median;
use crate::work::Round;

/// One line of the goals' table.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub(super) key: &'static str,
    pub(super) measure: String,
    pub(super) unit: &'static str,
    pub(super) windlass: f64,
    pub(super) limit: Option<f64>,
    pub(super) peers: BTreeMap<&'static str, f64>,
    pub(super) ratio: Option<f64>,
    pub(super) goal: &'static str,
    pub(super) met: bool,
}

impl Figures {
    /// The measured goals, in order.
    pub fn lines(&self) -> Vec<Line> {
        let lines = [
            self.throughput(),
            self.operator_cpu(),
            self.memory(),
            self.change(),
            self.plugin_call(),
            self.no_op(),
            self.idle(),
            self.many(),
            self.slope(),
            self.start(),
            self.neighbour_plugin(),
            self.neighbour_namespace(),
            self.failover(),
            self.hostile(),
        ];
        lines.into_iter().flatten().collect()
    }

    fn throughput(&self) -> Option<Line> {
        let rate = |round: &Round| round.writes_per_second;
        let to_raw = self.ratio(Contestant::Raw, rate)?;
        let to_peer = self.ratio(Contestant::ControllerRuntime, rate);
        let said = to_peer.map_or(String::new(), |ratio| format!("; {ratio:.2} × controller-runtime"));
        Some(Line {
            key: "p1",
            measure: format!("write throughput, work A{said}"),
            unit: "writes/s",
            windlass: self.middle(Contestant::Windlass, rate)?,
            limit: self.middle(Contestant::Raw, rate),
            peers: self.peers(rate),
            ratio: Some(to_raw),
            goal: "≥ 0.9 × limit and ≥ 1.5 × controller-runtime",
            met: to_raw >= 0.9 && to_peer.is_some_and(|ratio| ratio >= 1.5),
        })
    }

    fn operator_cpu(&self) -> Option<Line> {
        // For each write, because the contestants write different numbers of objects.
        let cpu = |round: &Round| round.cpu / as_float(round.writes as u64) * 1e6;
        let ratio = self.ratio(Contestant::ControllerRuntime, cpu);
        Some(Line {
            key: "p2",
            measure: "operator CPU for work A, start included".to_owned(),
            unit: "µs/write",
            windlass: self.middle(Contestant::Windlass, cpu)?,
            limit: self.middle(Contestant::Raw, cpu),
            peers: self.peers(cpu),
            ratio,
            goal: "≤ 0.4 × controller-runtime",
            met: ratio.is_some_and(|ratio| ratio <= 0.4),
        })
    }

    fn memory(&self) -> Option<Line> {
        let rss = |round: &Round| as_float(round.memory.rss) / MB;
        let anonymous = self.middle(Contestant::Windlass, |round| as_float(round.memory.anonymous) / MB)?;
        let windlass = self.middle(Contestant::Windlass, rss)?;
        Some(Line {
            key: "p3",
            measure: format!("RSS after work A ({anonymous:.1} MB of it anonymous)"),
            unit: "MB",
            windlass,
            limit: None,
            peers: self.peers(rss),
            ratio: self.ratio(Contestant::ControllerRuntime, rss),
            goal: "≤ 24 MB",
            met: windlass <= 24.0,
        })
    }

    fn change(&self) -> Option<Line> {
        let ratio = self.ratio(Contestant::Raw, |round| round.p50)?;
        let tail = self.ratio_within(Contestant::Windlass, |round| round.p99 / round.p50)?;
        let p99 = self.middle(Contestant::Windlass, |round| round.p99)?;
        let raw = self.middle(Contestant::Raw, |round| round.p99)?;
        let peer = self.middle(Contestant::ControllerRuntime, |round| round.p99);
        let peer = peer.map_or(String::new(), |peer| format!(", controller-runtime {peer:.1}"));
        let again = self.middle(Contestant::Windlass, |round| round.again)?;
        Some(Line {
            key: "p4",
            measure: format!(
                "work B, one spec changed → 3 children changed, p50 (p99: {p99:.1}, limit {raw:.1}{peer}; p50 of a parent's second change: {again:.1})"
            ),
            unit: "ms",
            windlass: self.middle(Contestant::Windlass, |round| round.p50)?,
            limit: self.middle(Contestant::Raw, |round| round.p50),
            peers: self.peers(|round| round.p50),
            ratio: Some(ratio),
            goal: "p50 ≤ 1.3 × limit, p99 ≤ 3 × p50",
            met: ratio <= 1.3 && tail <= 3.0,
        })
    }

    fn plugin_call(&self) -> Option<Line> {
        let [p50, p99] = self.call?;
        Some(Line {
            key: "p5",
            measure: format!("plugin call with its encoding, 3 children, p50 (p99: {p99:.0})"),
            unit: "µs",
            windlass: p50,
            limit: None,
            peers: BTreeMap::new(),
            ratio: None,
            goal: "≤ 40 µs",
            met: p50 <= 40.0,
        })
    }

    fn no_op(&self) -> Option<Line> {
        let Resync { parents, started, called, remembered, timed, requests } = self.no_ops?;
        Some(Line {
            key: "p6",
            measure: format!(
                "CPU of a no-op reconcile without memo, {parents} parents with {CHILDREN} children (with memo: \
                 {remembered:.0}, by its own timer: {timed:.0}; {requests} API calls; after a start, lists included: \
                 {started:.0})"
            ),
            unit: "µs",
            windlass: called,
            limit: self.call.map(|[p50, _]| p50),
            peers: BTreeMap::new(),
            ratio: self.call.map(|[p50, _]| called / p50),
            goal: "≤ 80 µs without memo, ≤ 15 µs with; 0 API calls",
            met: called <= 80.0 && remembered.max(timed) <= 15.0 && requests == 0,
        })
    }

    fn idle(&self) -> Option<Line> {
        let scale = self.scale.as_ref()?;
        let own = scale.idle.iter().find(|idle| idle.contestant == Contestant::Windlass)?;
        let peers = scale.idle.iter().filter(|idle| idle.contestant != Contestant::Windlass);
        let windlass = as_float(own.memory.rss) / MB;
        let anonymous = as_float(own.memory.anonymous) / MB;
        let peers: BTreeMap<_, _> =
            peers.map(|idle| (idle.contestant.name(), as_float(idle.memory.rss) / MB)).collect();
        Some(Line {
            key: "p7",
            measure: format!("idle RSS, shipped plugins loaded ({anonymous:.1} MB anonymous; {:.3} % CPU)", own.cpu),
            unit: "MB",
            windlass,
            limit: None,
            ratio: peers.get(Contestant::ControllerRuntime.name()).map(|peer| windlass / peer),
            peers,
            goal: "≤ 16 MB and ≤ 0.05 % CPU",
            met: windlass <= 16.0 && own.cpu <= 0.05,
        })
    }

    fn many(&self) -> Option<Line> {
        let Starts { plugins, idle, .. } = self.starts?;
        let (windlass, anonymous) = (as_float(idle.rss) / MB, as_float(idle.anonymous) / MB);
        let processes = self.scale.iter().flat_map(|scale| &scale.idle);
        let peers: BTreeMap<_, _> = processes
            .filter(|idle| idle.contestant != Contestant::Windlass)
            .map(|idle| (idle.contestant.name(), as_float(idle.memory.rss) / MB * as_float(plugins as u64)))
            .collect();
        Some(Line {
            key: "p8",
            measure: format!(
                "idle RSS, {plugins} plugins ({anonymous:.1} MB anonymous); peers: {plugins} idle processes"
            ),
            unit: "MB",
            windlass,
            limit: None,
            ratio: peers.get(Contestant::ControllerRuntime.name()).map(|peer| windlass / peer),
            peers,
            goal: "≤ 64 MB",
            met: windlass <= 64.0,
        })
    }

    fn slope(&self) -> Option<Line> {
        let scale = self.scale.as_ref()?;
        let (least, most) = (scale.sizes.first()?, scale.sizes.last()?);
        let bytes = as_float(most.bytes.saturating_sub(least.bytes));
        let slope = (as_float(most.memory.rss) - as_float(least.memory.rss)) / bytes;
        let peak = as_float(scale.restarted.peak) / as_float(scale.restarted.rss);
        Some(Line {
            key: "p9",
            measure: format!(
                "RSS by bytes of trimmed objects, {} → {} parents with 1 child (peak of the first list {peak:.2} × steady)",
                least.parents, most.parents
            ),
            unit: "B/B",
            windlass: slope,
            limit: Some(1.0),
            peers: BTreeMap::new(),
            ratio: Some(slope),
            goal: "≤ 1.5 × limit; peak ≤ 1.3 × steady",
            met: slope <= 1.5 && peak <= 1.3,
        })
    }

    fn start(&self) -> Option<Line> {
        let Starts { plugins, parents, first_write, raw_first_write, alone, .. } = self.starts?;
        Some(Line {
            key: "p10",
            measure: format!(
                "start → first write, {plugins} compiled plugins, {parents} parents of one of them (one plugin, one \
                 parent: {alone:.0})"
            ),
            unit: "ms",
            windlass: first_write,
            limit: Some(raw_first_write),
            peers: BTreeMap::new(),
            ratio: Some(first_write / raw_first_write),
            goal: "≤ 1.2 × limit + 100 ms; ≤ 50 ms alone",
            met: first_write <= 1.2 * raw_first_write + 100.0 && alone <= 50.0,
        })
    }

    fn failover(&self) -> Option<Line> {
        /// The default of `--leader-elect-lease-duration`.
        const LEASE_MS: f64 = 15_000.0;
        let Failover { parents, terminated, killed, .. } = self.failover?;
        Some(Line {
            key: "p12",
            measure: format!(
                "SIGKILL of the leader → first write of the standby, {parents} parents (SIGTERM: {terminated:.0})"
            ),
            unit: "ms",
            windlass: killed,
            limit: Some(LEASE_MS),
            peers: BTreeMap::new(),
            ratio: Some(killed / LEASE_MS),
            goal: "≤ lease duration + 1 s; after SIGTERM ≤ 1 s",
            met: killed <= LEASE_MS + 1000.0 && terminated <= 1000.0,
        })
    }

    fn neighbour_plugin(&self) -> Option<Line> {
        Self::neighbours("p11", "a plugin that computes all the time", &self.neighbours.plugin)
    }

    fn neighbour_namespace(&self) -> Option<Line> {
        let what = "150 parents of the same plugin in another namespace that compute all the time";
        Self::neighbours("p11n", what, &self.neighbours.namespace)
    }

    fn neighbours(key: &'static str, what: &str, pairs: &[Beside]) -> Option<Line> {
        let ratio = median(pairs.iter().map(|pair| pair.neighbour.p99 / pair.outside.p99))?;
        let cores = median(pairs.iter().map(|pair| pair.cores))?;
        Some(Line {
            key,
            measure: format!("work B's p99 next to {what} ({cores:.2} cores used)"),
            unit: "ms",
            windlass: median(pairs.iter().map(|pair| pair.neighbour.p99))?,
            limit: median(pairs.iter().map(|pair| pair.outside.p99)),
            peers: BTreeMap::new(),
            ratio: Some(ratio),
            goal: "≤ 1.2 × p99 next to an outside process that uses as much CPU time",
            met: ratio <= 1.2,
        })
    }

    fn hostile(&self) -> Option<Line> {
        let ratio = median(self.hostile.iter().map(|row| row.after.p99 / row.before.p99))?;
        let beside = median(self.hostile.iter().map(|row| row.beside.neighbour.p99 / row.beside.outside.p99))?;
        Some(Line {
            key: "r19",
            measure: format!(
                "work B's p99 after the activity of a hostile plugin, divided by that before it (during it: {beside:.2} × \
                 next to an outside process that uses as much CPU time)"
            ),
            unit: "ms",
            windlass: median(self.hostile.iter().map(|row| row.after.p99))?,
            limit: median(self.hostile.iter().map(|row| row.before.p99)),
            peers: BTreeMap::new(),
            ratio: Some(ratio),
            goal: "≤ 1.1 × before; during it ≤ 1.2 × next to the outside process",
            met: ratio <= 1.1 && beside <= 1.2,
        })
    }

    fn of(&self, contestant: Contestant) -> impl Iterator<Item = &Round> {
        self.rounds.iter().filter_map(move |round| round.get(&contestant))
    }

    fn middle(&self, contestant: Contestant, figure: impl Fn(&Round) -> f64) -> Option<f64> {
        median(self.of(contestant).map(figure))
    }

    /// Windlass divided by another contestant: the median of the rounds' ratios, because rounds differ more than
    /// contestants within one round.
    fn ratio(&self, other: Contestant, figure: impl Fn(&Round) -> f64) -> Option<f64> {
        let pairs =
            self.rounds.iter().filter_map(|round| Some((round.get(&Contestant::Windlass)?, round.get(&other)?)));
        median(pairs.map(|(windlass, other)| figure(windlass) / figure(other)))
    }

    fn ratio_within(&self, contestant: Contestant, figure: impl Fn(&Round) -> f64) -> Option<f64> {
        median(self.of(contestant).map(figure))
    }

    fn peers(&self, figure: impl Fn(&Round) -> f64) -> BTreeMap<&'static str, f64> {
        [Contestant::ControllerRuntime, Contestant::Kopf]
            .into_iter()
            .filter_map(|peer| Some((peer.name(), self.middle(peer, &figure)?)))
            .collect()
    }
}
