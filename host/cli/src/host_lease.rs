//! Tells by the Lease of a namespace whether a host runs there.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use windlass_engine::cluster::in_time;
use windlass_engine::cluster::lease::NAME as LEASE;

use super::connect::plain;

/// The holder of a Lease at this time, and the time until the Lease expires; none if it is free.
pub fn holder_of(lease: &Lease, now: Timestamp) -> Option<(&str, Duration)> {
    let spec = lease.spec.as_ref()?;
    let holder = spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())?;
    let duration = SignedDuration::from_secs(spec.lease_duration_seconds.unwrap_or_default().into());
    let left = duration.saturating_sub(now.duration_since(spec.renew_time.as_ref()?.0));
    Some((holder, Duration::try_from(left).ok().filter(|left| !left.is_zero())?))
}

/// Why a host may not have acted yet, as far as its Lease shows it: a sentence for users.
pub async fn why_idle(client: &Client, namespace: &str) -> String {
    let lease = in_time(Api::<Lease>::namespaced(client.clone(), namespace).get_opt(LEASE)).await;
    let lease = lease.map_err(|error| plain(error).to_string());
    text(namespace, lease.as_ref().map(|lease| lease.as_ref().and_then(|lease| holder_of(lease, Timestamp::now()))))
}

fn text(namespace: &str, holder: Result<Option<(&str, Duration)>, &String>) -> String {
    match holder {
        Ok(Some((holder, _))) => format!(
            "the host runs ({holder} holds the Lease), and has not finished with it: a new component is compiled first, which takes \
             minutes on a slow machine"
        ),
        Ok(None) => format!(
            "no host runs: nobody holds Lease {namespace}/{LEASE}. Start one (`windlass install`, `windlass run`), or name its namespace \
             with --host-namespace"
        ),
        Err(why) => format!(
            "see whether the host runs (`windlass run`, or its Pod): Lease {namespace}/{LEASE} was not read: {why}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lease_is_held_until_it_expires_or_is_released() {
        let lease = |holder: &str| -> Lease {
            let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"});
            serde_json::from_value(json!({"metadata": {"name": "windlass"}, "spec": spec})).expect("a Lease")
        };
        let at = |time: &str| time.parse::<Timestamp>().expect("a time");
        let (held, released) = (lease("node-1"), lease(""));
        assert_eq!(holder_of(&held, at("2026-01-01T00:00:14Z")), Some(("node-1", Duration::from_secs(1))));
        assert_eq!(holder_of(&held, at("2026-01-01T00:00:15Z")), None);
        assert_eq!(holder_of(&held, at("2026-01-01T00:00:16Z")), None);
        assert_eq!(holder_of(&released, at("2026-01-01T00:00:01Z")), None);
    }

    #[test]
    fn reason_says_whether_a_host_runs() {
        let second = Duration::from_secs(1);
        for (holder, words) in [
            (Ok(Some(("windlass-7d4_2f-1", second))), "the host runs (windlass-7d4_2f-1 holds the Lease)"),
            (Ok(None), "no host runs: nobody holds Lease here/windlass"),
            (Err(&"forbidden".to_owned()), "Lease here/windlass was not read: forbidden"),
        ] {
            let text = text("here", holder);
            assert!(text.contains(words), "{text}");
        }
    }
}
