//! Decides about an APIService that this server may make. Pure.

use super::super::service::{ApiService, Keeper};
use super::priorities::Priorities;

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing.
    Nothing,
    /// It is missing.
    Create,
    /// Its spec is not the one that the server wants.
    Restore,
    /// It is of a server that serves this group version no more.
    Delete,
}

/// Whether the server may now write the APIServices that it writes once after a start (CN-9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// It may.
    Start,
    /// It has done so.
    Later,
}

/// Decides about an APIService of this name. `wanted` are its priorities if the server serves its
/// group version.
pub(super) fn decide(
    stored: Option<&ApiService>,
    wanted: Option<Priorities>,
    moment: Moment,
) -> Action {
    let Some(stored) = stored else {
        return match wanted {
            Some(_) => Action::Create,
            None => Action::Nothing,
        };
    };
    let is_kept = match stored.keeper {
        Keeper::Users => false,
        Keeper::OnStart => moment == Moment::Start,
        Keeper::Always => true,
    };
    match wanted {
        _ if !is_kept => Action::Nothing,
        None => Action::Delete,
        Some(wanted) if is_as(stored, wanted) => Action::Nothing,
        Some(_) => Action::Restore,
    }
}

/// Whether the spec is that of a local APIService with these priorities.
fn is_as(stored: &ApiService, wanted: Priorities) -> bool {
    let priorities = Priorities {
        group: stored.group_priority,
        version: stored.version_priority,
    };
    priorities == wanted
        && !stored.is_remote()
        && stored.ca_bundle.is_empty()
        && !stored.insecure_skip_tls_verify
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregation::service::ServiceReference;

    const WANTED: Priorities = Priorities {
        group: 1000,
        version: 100,
    };

    fn stored(keeper: Keeper) -> ApiService {
        ApiService {
            group_priority: 1000,
            version_priority: 100,
            keeper,
            ..ApiService::default()
        }
    }

    #[test]
    fn the_label_says_what_the_server_may_do_cn_9_cn_10_cn_11() {
        use Action::{Create, Delete, Nothing, Restore};
        use Moment::{Later, Start};
        let wanted = Some(WANTED);
        assert_eq!(decide(None, wanted, Later), Create);
        assert_eq!(decide(None, None, Start), Nothing);
        let changed = |keeper| ApiService {
            group_priority: 2000,
            ..stored(keeper)
        };
        let remote = |keeper| ApiService {
            service: Some(ServiceReference {
                namespace: String::new(),
                name: String::new(),
                port: 1,
            }),
            ..stored(keeper)
        };
        for (keeper, moment, other, gone) in [
            (Keeper::Users, Start, Nothing, Nothing),
            (Keeper::Users, Later, Nothing, Nothing),
            (Keeper::OnStart, Start, Restore, Delete),
            (Keeper::OnStart, Later, Nothing, Nothing),
            (Keeper::Always, Start, Restore, Delete),
            (Keeper::Always, Later, Restore, Delete),
        ] {
            let of = |stored: ApiService, wanted| decide(Some(&stored), wanted, moment);
            assert_eq!(of(stored(keeper), wanted), Nothing);
            assert_eq!(of(changed(keeper), wanted), other);
            assert_eq!(of(remote(keeper), wanted), other);
            assert_eq!(of(stored(keeper), None), gone);
        }
    }
}
