//! The moments of a start that others wait for.

use tokio::sync::watch;

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
