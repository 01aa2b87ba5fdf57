//! One Cacher per resource: its current objects, its ring, and who wants which topic.

mod handle;
mod interests;
mod readiness;
mod shared;

pub use handle::{CacherHandle, NotFresh};

pub use interests::{Bell, DeskId};
pub use readiness::{NotReady, Readiness};
pub(crate) use shared::Shared;
