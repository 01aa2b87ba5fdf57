//! The pages of redb's file, and the checks that each page is the right one.
//!
//! The parent of a page names it together with a checksum; the header names the roots. redb does
//! not check them when it reads. [`CheckedPages`] sits between redb and its file, and does. It owns
//! the knowledge about pages: it learns the checksums of a page's children when it reads the page,
//! and remembers the pages that redb writes. [`header`] and [`page`] know redb's file format.
//! [`acknowledged`] is a mark of our own in the part of the header's page that redb leaves alone.
//! Nothing here knows our tables.

pub mod acknowledged;
mod checked;
pub mod header;
pub mod page;

pub use checked::CheckedPages;
pub use header::Header;
