//! What the benchmark measures: as many ConfigMaps as asked for, of the size asked for, and one status.
//!
//! The peers in `bench/peers` do the same, in their way.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_plugin::{CustomResource, Descriptor, Failure, Reconciler, Request, Response, json, kinds::ConfigMap};

/// The Plugin's `spec.config`.
#[derive(Debug, JsonSchema)]
pub struct LoadConfig {
    /// A number without a meaning: a change of it makes the host call the plugin for every parent.
    pub round: Option<u32>,
}

/// Work for an operator.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct LoadSpec {
    /// Number of ConfigMaps.
    #[schemars(range(max = 1000))]
    pub children: u32,
    /// Bytes of padding in each ConfigMap.
    #[schemars(range(max = 100_000))]
    pub payload: u32,
    /// Value in each ConfigMap: a change of it changes all of them.
    pub note: String,
    /// Rounds of computing before the response, some ten milliseconds each.
    #[serde(default)]
    #[schemars(range(max = 1000))]
    pub rounds: u32,
}

/// Observed state: that of the spec alone, so that one write is enough.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LoadStatus {
    /// Number of desired ConfigMaps.
    pub wanted: u32,
}

/// The operator.
#[derive(Debug)]
pub struct Load;

impl Reconciler for Load {
    type Spec = LoadSpec;
    type Status = LoadStatus;

    fn descriptor() -> Descriptor {
        let kind = CustomResource::namespaced::<Self>("bench.example", "v1", "Load");
        Descriptor::new("load", env!("CARGO_PKG_VERSION"), kind)
            .description("Runs as many ConfigMaps as asked for, to be measured at it")
            .child::<ConfigMap>()
            .config::<LoadConfig>()
            .resync(Duration::from_mins(60))
    }

    fn reconcile(request: Request<Self>) -> Result<Response<Self>, Failure> {
        let LoadSpec { children, payload, note, rounds } = &request.spec;
        compute(*rounds);
        let padding = "x".repeat(*payload as usize);
        let maps = (0..*children).map(|index| {
            json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": { "name": format!("{}-{index}", request.name()), "labels": { "app": "load" } },
                "data": { "note": note, "payload": padding },
            })
        });
        Ok(Response::new().children(maps).status(LoadStatus { wanted: *children }))
    }
}

/// Keeps a core busy, in a way that no compiler sees through.
fn compute(rounds: u32) {
    let mut state = 1_u64;
    for _ in 0..u64::from(rounds) * 5_000_000 {
        state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

windlass_plugin::export!(Load);
