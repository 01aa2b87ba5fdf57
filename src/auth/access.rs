//! Tracks whether the access of a long-running request is still valid. A watch lives long after the
//! request that opened it was authorized.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::watch;

/// The access that a credential grants, shared by all work that was started with it. A revoked
/// access stays revoked. A token that is removed and added again grants a new access.
#[derive(Clone, Debug, Default)]
pub struct Access(Arc<AccessState>);

#[derive(Debug, Default)]
struct AccessState {
    is_revoked: AtomicBool,
    watches: AtomicUsize,
}

impl Access {
    /// Whether the access is revoked.
    pub fn is_revoked(&self) -> bool {
        self.0.is_revoked.load(Ordering::Acquire)
    }

    /// Revokes the access. Returns the number of watches that end.
    fn revoke(&self) -> usize {
        self.0.is_revoked.store(true, Ordering::Release);
        self.0.watches.load(Ordering::Relaxed)
    }

    pub(super) fn is_the_same(&self, other: &Access) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Announces that some access was revoked. Clones share the same announcement.
#[derive(Clone, Debug, Default)]
pub struct Revocations(watch::Sender<u64>);

impl Revocations {
    /// Revokes an access. Returns the number of watches that end.
    pub(crate) fn revoke(&self, access: &Access) -> usize {
        let watches = access.revoke();
        self.0.send_modify(|count| *count += 1);
        watches
    }

    /// Returns a receiver that changes whenever an access is revoked.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// The access of an open watch. The watch counts until this is dropped.
#[derive(Debug)]
pub struct WatchAccess(Access);

impl WatchAccess {
    /// Opens a watch with this access.
    pub fn new(access: Access) -> WatchAccess {
        access.0.watches.fetch_add(1, Ordering::Relaxed);
        WatchAccess(access)
    }

    /// Returns the access itself.
    pub fn access(&self) -> &Access {
        &self.0
    }
}

impl Drop for WatchAccess {
    fn drop(&mut self) {
        self.0.0.watches.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_is_revoked_for_all_who_share_it_and_knows_their_watches() {
        let (access, other) = (Access::default(), Access::default());
        let revocations = Revocations::default();
        let told = revocations.subscribe();
        let watches = [(); 3].map(|()| WatchAccess::new(access.clone()));
        drop(WatchAccess::new(access.clone()));
        assert!(watches.iter().all(|watch| !watch.access().is_revoked()));
        assert!(!told.has_changed().unwrap());
        assert_eq!(revocations.revoke(&access), 3);
        assert!(told.has_changed().unwrap());
        assert!(watches.iter().all(|watch| watch.access().is_revoked()));
        assert!(!other.is_revoked() && !other.is_the_same(&access));
    }
}
