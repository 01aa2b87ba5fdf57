//! Pure. The lease of kube-controller-manager. While one holds it, it does the work of the
//! simulated controllers.
//!
//! The clocks of two machines are not compared: a manager is gone when its lease was not renewed
//! for as long as it lasts.

use std::time::Duration;

use tokio::time::Instant;

use super::objects::Id;
use super::plan::number;
use crate::api::object::Object;

/// The duration of a lease that does not say.
const LASTS: u64 = 15;

/// The state of the lease.
#[derive(Debug, Default)]
pub(super) struct ManagerLease {
    /// When it was renewed, as its holder wrote it.
    renewed: String,
    /// When the holder counts as gone.
    until: Option<Instant>,
}

impl ManagerLease {
    /// Takes note of a lease, if it is that of the manager.
    pub(super) fn see(&mut self, id: &Id, lease: &Object, now: Instant) {
        if id.namespace != "kube-system" || id.name != "kube-controller-manager" {
            return;
        }
        if lease.text(&["spec", "holderIdentity"]).is_empty() {
            // It was given back.
            self.until = self.until.map(|_| now);
            return;
        }
        let renewed = lease.text(&["spec", "renewTime"]);
        if renewed != self.renewed {
            renewed.clone_into(&mut self.renewed);
            let seconds = u64::try_from(number(lease, &["spec", "leaseDurationSeconds"]));
            let seconds = seconds.ok().filter(|seconds| *seconds > 0).unwrap_or(LASTS);
            self.until = Some(now + Duration::from_secs(seconds.min(3600)));
        }
    }

    /// Whether a manager works.
    pub(super) fn is_held(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// When the manager counts as gone, if there is one.
    pub(super) fn ends(&self) -> Option<Instant> {
        self.until
    }

    /// Whether a manager has gone since the last call.
    pub(super) fn has_ended(&mut self, now: Instant) -> bool {
        let has_ended = self.until.is_some_and(|until| until <= now);
        if has_ended {
            self.until = None;
        }
        has_ended
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::objects::Kind;
    use super::super::plan::tests::object;
    use super::*;

    #[test]
    fn a_manager_works_until_its_lease_is_not_renewed_or_given_back() {
        let mut lease = ManagerLease::default();
        let id = Id::new(Kind::Lease, "kube-system", "kube-controller-manager");
        let record = |holder: &str, renewed: &str| {
            object(
                &json!({"spec": {"holderIdentity": holder, "renewTime": renewed,
                "leaseDurationSeconds": 5}}),
            )
        };
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let other = Id::new(Kind::Lease, "kube-system", "kube-scheduler");
        lease.see(&other, &record("a", "1"), at(0));
        assert!(!lease.is_held(at(0)));
        lease.see(&id, &record("a", "1"), at(0));
        lease.see(&id, &record("a", "1"), at(4));
        assert!(lease.is_held(at(4)) && !lease.is_held(at(5)));
        lease.see(&id, &record("a", "2"), at(4));
        assert!(lease.is_held(at(8)) && !lease.has_ended(at(8)));
        lease.see(&id, &record("", "2"), at(8));
        assert!(lease.has_ended(at(8)) && !lease.has_ended(at(8)));
    }
}
