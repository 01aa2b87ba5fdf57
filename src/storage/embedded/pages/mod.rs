//! The pages of redb's file, and the proof that a page is the right one.
//!
//! Every page of the file is named by its parent together with a checksum, up to the header. redb
//! does not check them when it reads. [`CheckedPages`] stands between redb and its file, and does.
//! It owns what is known of pages: it learns the checksums of a page's children when it reads the
//! page, and remembers what redb writes. [`header`] and [`page`] know redb's file format.
//! [`acknowledged`] is a mark of our own in the part of the header's page that redb leaves alone.
//! Bytes and offsets enter; whether they may be used leaves. Nothing here knows tables of ours.

pub mod acknowledged;
mod checked;
pub mod header;
pub mod page;

pub use checked::CheckedPages;
pub use header::Header;
