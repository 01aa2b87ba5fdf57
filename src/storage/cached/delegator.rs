//! Decides whether cache or store serves a read, as one table (storage.md 2.3). Pure.

use actors::engine::Revision;

use crate::storage::{Asked, VersionMatch};

/// Whether the cache or the store serves a list, and how recent the state must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// The cache, once it has seen everything acknowledged before the request (LI-20, 21, 30).
    Consistent,
    /// The cache as it is. A limit has no effect (LI-22, LI-46).
    AnyState,
    /// The cache, once it is not older than this (LI-23, LI-26).
    NotOlderThan(Revision),
    /// The state at exactly this revision: from the cache if nothing has changed since, otherwise
    /// from the store (LI-24, LI-27, LI-29).
    Exact(Revision),
    /// The store (LI-25, LI-28).
    Store,
}

/// The parts of a list request that decide its route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    /// The requested version.
    pub asked: Asked,
    /// How the version must match.
    pub version_match: Option<VersionMatch>,
    /// Whether a limit is set.
    pub limited: bool,
    /// Whether it lists everything below the key, or one object.
    pub recursive: bool,
    /// The version in the continue token, if there is one. Lists of one object have none (LI-31).
    pub token: Option<i64>,
}

/// The routing table of storage.md 2.3.
pub(super) fn route(question: Question) -> Route {
    if let Some(revision) = question.token {
        return match u64::try_from(revision) {
            Ok(revision) => Route::Exact(Revision(revision)),
            Err(_) => Route::Consistent,
        };
    }
    match (question.asked, question.version_match) {
        (Asked::Unset, _) => Route::Consistent,
        (Asked::Any, _) => Route::AnyState,
        (Asked::At(_), Some(VersionMatch::Exact)) if !question.recursive => Route::Store,
        (Asked::At(revision), Some(VersionMatch::Exact)) => Route::Exact(revision),
        (Asked::At(_), None) if question.limited && !question.recursive => Route::Store,
        (Asked::At(revision), None) if question.limited => Route::Exact(revision),
        (Asked::At(revision), _) => Route::NotOlderThan(revision),
    }
}

/// Returns whether a list goes to the store while the cache is being filled. Only limited lists
/// without selectors do, because other lists would read everything from the store (PF-30, WC-42).
pub(super) fn served_by_store_while_filling(limited: bool, has_selectors: bool) -> bool {
    limited && !has_selectors
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: Revision = Revision(7);

    #[test]
    fn every_row_of_the_routing_table_ts_80() {
        use Asked::{Any, At, Unset};
        use VersionMatch::{Exact, NotOlderThan};
        let rows = [
            // match, version, limited, token, recursive, route
            ("LI-20", None, Unset, false, None, true, Route::Consistent),
            ("LI-20", None, Unset, true, None, true, Route::Consistent),
            ("LI-21", None, Unset, true, None, false, Route::Consistent),
            ("LI-22", None, Any, true, None, true, Route::AnyState),
            ("LI-22", None, Any, false, None, false, Route::AnyState),
            (
                "LI-23",
                None,
                At(N),
                false,
                None,
                true,
                Route::NotOlderThan(N),
            ),
            ("LI-24", None, At(N), true, None, true, Route::Exact(N)),
            ("LI-25", None, At(N), true, None, false, Route::Store),
            (
                "LI-26",
                Some(NotOlderThan),
                Any,
                true,
                None,
                true,
                Route::AnyState,
            ),
            (
                "LI-26",
                Some(NotOlderThan),
                At(N),
                true,
                None,
                true,
                Route::NotOlderThan(N),
            ),
            (
                "LI-27",
                Some(Exact),
                At(N),
                true,
                None,
                true,
                Route::Exact(N),
            ),
            (
                "LI-28",
                Some(Exact),
                At(N),
                false,
                None,
                false,
                Route::Store,
            ),
            ("LI-29", None, Unset, true, Some(7), true, Route::Exact(N)),
            ("LI-29", None, Any, false, Some(7), true, Route::Exact(N)),
            (
                "LI-30",
                None,
                Unset,
                true,
                Some(-1),
                true,
                Route::Consistent,
            ),
        ];
        for (rule, version_match, asked, limited, token, recursive, expected) in rows {
            let question = Question {
                asked,
                version_match,
                limited,
                recursive,
                token,
            };
            assert_eq!(route(question), expected, "{rule}: {question:?}");
        }
    }

    #[test]
    fn a_filling_cache_lets_only_bounded_plain_lists_through_pf_30() {
        assert!(served_by_store_while_filling(true, false));
        assert!(!served_by_store_while_filling(false, false));
        assert!(!served_by_store_while_filling(true, true));
    }
}
