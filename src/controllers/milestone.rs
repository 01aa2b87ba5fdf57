//! The moments of a start that others wait for.

use tokio::sync::watch;

use crate::api::status::Status;

/// Something that a part of the daemon has done once, such as its first look at everything. Clones
/// are the same milestone.
#[derive(Clone, Debug, Default)]
pub struct Milestone(watch::Sender<bool>);

impl Milestone {
    /// Records that it is reached. It stays so.
    pub fn reach(&self) {
        self.0
            .send_if_modified(|reached| !std::mem::replace(reached, true));
    }

    /// Reaches it if a write is done, or refused by a rule.
    pub fn reach_by(&self, written: &Result<(), Box<Status>>) {
        if written
            .as_ref()
            .err()
            .is_none_or(|status| is_refused_by_rule(status))
        {
            self.reach();
        }
    }

    /// Whether it is reached.
    pub fn is_reached(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is reached. May be cancelled at any point.
    pub async fn reached(&self) {
        // An error would mean that this sender is gone.
        let _ = self.0.subscribe().wait_for(|reached| *reached).await;
    }
}

/// Whether the rules of an operator refuse a write: a policy or a quota. A part has then done what
/// it may, so a start does not wait for it, which would keep clients away that could change the
/// rule.
pub fn is_refused_by_rule(status: &Status) -> bool {
    matches!(status.code, 403 | 422)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_milestone_is_reached_once_and_for_all_clones() {
        let milestone = Milestone::default();
        let clone = milestone.clone();
        assert!(!clone.is_reached());
        let waiting = tokio::spawn(async move { clone.reached().await });
        milestone.reach();
        milestone.reach();
        waiting.await.unwrap();
        milestone.reached().await;
        assert!(milestone.is_reached());
    }
}
