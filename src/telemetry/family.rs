//! A family of series on the page of metrics.

/// A family of series on a page.
#[derive(Default)]
pub(super) struct Family {
    pub(super) name: String,
    /// Its help and type lines.
    pub(super) head: String,
    pub(super) samples: String,
}
