//! The Compactor: forgets what retention no longer wants, and gives space back.

mod handle;

pub use handle::{CompactError, CompactReport, CompactorHandle};
