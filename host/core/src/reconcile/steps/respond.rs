//! Gets the plugin's response for a parent, in as many calls as its requirements take.

use std::time::Duration;

use super::Reconcile;
use crate::contract::related::{Need, Needs, Refusal, Rounds};
use crate::contract::snapshot::{Served, Snapshot};
use crate::contract::{Phase, Requirement, Response};
use crate::guard::quarantine::Admission;
use crate::object::parent::ParentRef;
use crate::reconcile::outcome::Problem;
use crate::reconcile::rounds::{Ask, respond};
use crate::reconcile::world::{Call, Called, Selected, Wake};
use crate::value::digest::Digest;

impl Reconcile<'_> {
    /// Begins the rounds with what the parent's last final response required, and serves it.
    ///
    /// If some of it is no longer granted or cannot be read, the reconcile begins without any, because the parent
    /// may no longer require it. If it does, the next round reports the problem.
    pub(super) async fn required_before(&self, parent: &ParentRef) -> (Rounds, Selected) {
        let nothing = || (Rounds::starting_with(Needs::default()), Selected::default());
        let Some(last) = self.world.required_before(self.key) else { return nothing() };
        if !last.iter().all(|need| self.terms.reads.permit(need, self.key)) {
            return nothing();
        }
        match self.world.serve(parent, &last).await {
            Ok(selected) => (Rounds::starting_with(last), selected),
            Err(problem) => {
                tracing::debug!(plugin = %self.terms.name, object = %parent, %problem, "what was required before is not served");
                nothing()
            }
        }
    }

    /// The plugin's final response, with the hash of its call. The hash is none if the same call might get another response. The snapshot is
    /// then that of the final call. `selection`: the time that the selection of the objects in `rounds` took.
    ///
    /// # Errors
    /// If the plugin may not read the parent, a call fails, or requirements are rejected, cannot be read or never settle.
    pub(super) async fn response(
        &self,
        snapshot: &mut Snapshot,
        phase: Phase,
        rounds: Rounds,
        selection: Duration,
        hash: Digest,
    ) -> Result<(Response, Option<Digest>), Problem> {
        self.world.may_read(&snapshot.parent_ref).await?;
        let parent = snapshot.parent_ref.clone();
        let mut asking = Asking { of: self, parent, phase, hash: Some(hash), selection, is_pure: false };
        let (response, needs) = respond(&mut asking, snapshot, rounds, self.terms.limits.request_bytes).await?;
        let call = asking.is_pure.then(|| asking.hash(snapshot));
        self.world.remember_required(self.key, Some(&needs));
        Ok((response, call))
    }

    /// Calls the plugin, unless it is in quarantine (rule R19).
    async fn call(&self, call: Call<'_>) -> Result<(Response, bool), Problem> {
        let parent = &call.snapshot.parent;
        let permit = self.world.permit(parent.key.namespace.as_ref()).await.map_err(Problem::Call)?;
        // As late as possible: other calls may have failed while this one waited.
        let admission = self.shared.state.admit(parent);
        if let Admission::Denied(wait) = admission {
            return Err(Problem::Quarantined(wait));
        }
        let Called { result, is_pure } = self.world.call(&permit, call).await;
        if let Some(change) = self.shared.state.note_call(parent, admission, &result) {
            self.world.wake(Wake::Quarantine(change));
        }
        // Only now: who waits for it must see the failure.
        drop(permit);
        let response = result.map_err(Problem::Call)?.map_err(Problem::Plugin)?;
        Ok((response, is_pure))
    }
}

/// The calls of one reconcile.
struct Asking<'a> {
    of: &'a Reconcile<'a>,
    parent: ParentRef,
    phase: Phase,
    /// Hash of a call with the snapshot as it is; none once it has changed.
    hash: Option<Digest>,
    /// The time that the selection of related objects took.
    selection: Duration,
    /// Whether the last response depends on nothing but the snapshot.
    is_pure: bool,
}

impl Asking<'_> {
    fn hash(&self, snapshot: &Snapshot) -> Digest {
        self.hash.unwrap_or_else(|| snapshot.hash(&self.of.terms.call_inputs, self.phase))
    }
}

impl Ask for Asking<'_> {
    async fn call(&mut self, snapshot: &Snapshot) -> Result<Response, Problem> {
        let hash = self.hash(snapshot);
        self.hash = Some(hash);
        let deadline = self.of.terms.limits.deadline.saturating_sub(self.selection);
        let (response, is_pure) = self.of.call(Call { snapshot, phase: self.phase, hash, deadline }).await?;
        self.is_pure = is_pure;
        Ok(response)
    }

    fn resolve(&self, required: &[Requirement]) -> Result<Vec<Need>, Refusal> {
        let terms = self.of.terms;
        terms.reads.resolve(required, &self.parent.key, terms.limits.requirements)
    }

    async fn serve(&mut self, needs: &Needs) -> Result<Vec<Served>, Problem> {
        let Selected { objects, took } = self.of.world.serve(&self.parent, needs).await?;
        (self.selection, self.hash) = (took, None);
        Ok(objects)
    }
}
