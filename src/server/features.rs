//! The feature gates that change what clients see (http.md 10.1). Other gates change nothing.

/// The implemented gates, each with whether it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// APIResponseCompression: responses are compressed for clients that accept gzip.
    pub response_compression: bool,
    /// ComponentFlagz: `/flagz` shows the flags.
    pub flagz: bool,
    /// ComponentStatusz: `/statusz` shows the version and the start time.
    pub statusz: bool,
    /// ConstrainedImpersonation: authorization checks the `impersonate:<mode>` verbs first
    /// (API-285).
    pub constrained_impersonation: bool,
    /// StorageVersionHash: discovery shows a hash of the storage version (API-26).
    pub storage_version_hash: bool,
    /// WatchList: watches may ask for initial events (API-84).
    pub watch_list: bool,
}

impl Features {
    /// Returns the features, from the state of the gates by name.
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
