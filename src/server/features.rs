//! What clients see less of when the feature gate of this name is off (http.md 10.1). Other gates
//! change nothing.

/// The gates that count, each with whether it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// APIResponseCompression: who accepts gzip gets it.
    pub response_compression: bool,
    /// ComponentFlagz: `/flagz` shows the flags.
    pub flagz: bool,
    /// ComponentStatusz: `/statusz` shows what runs.
    pub statusz: bool,
    /// ConstrainedImpersonation: the verbs of constrained impersonation are asked (API-285).
    pub constrained_impersonation: bool,
    /// StorageVersionHash: discovery tells what resources are stored as (API-26).
    pub storage_version_hash: bool,
    /// WatchList: watches may ask for initial events (API-84).
    pub watch_list: bool,
}

impl Features {
    /// The features whose gates are on, by their names.
    pub fn of(is_on: impl Fn(&str) -> bool) -> Features {
        Features {
            response_compression: is_on("APIResponseCompression"),
            flagz: is_on("ComponentFlagz"),
            statusz: is_on("ComponentStatusz"),
            constrained_impersonation: is_on("ConstrainedImpersonation"),
            storage_version_hash: is_on("StorageVersionHash"),
            watch_list: is_on("WatchList"),
        }
    }
}
