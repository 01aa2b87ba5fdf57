//! The files of the embedded engine: stores of old releases open as they were, damage is refused
//! by the name of file and record, and failures of the disk are survived in the process.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod damage;
mod files;
mod golden;
mod records;
mod story;
