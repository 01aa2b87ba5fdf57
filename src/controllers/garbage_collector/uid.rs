//! Identifiers of objects, in little memory. Pure.

use std::fmt;

/// The uid of an object. Nearly all are UUIDs, which take 16 bytes instead of 36 and a pointer.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Uid {
    /// A UUID in its usual form.
    Uuid([u8; 16]),
    /// Any other text.
    Other(Box<str>),
}

impl Uid {
    pub(super) fn of(text: &str) -> Uid {
        let known = uuid::Uuid::try_parse(text).ok();
        match known.filter(|uuid| uuid.to_string() == text) {
            Some(uuid) => Uid::Uuid(uuid.into_bytes()),
            None => Uid::Other(text.into()),
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Uid::Uuid(bytes) => uuid::Uuid::from_bytes(*bytes).fmt(f),
            Uid::Other(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_the_text_that_it_was() {
        for text in [
            "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6",
            "f81d4fae7dec11d0a76500a0c91e6bf6",
            "",
            "u-1",
        ] {
            assert_eq!(Uid::of(text).to_string(), text);
        }
        assert_ne!(
            Uid::of("F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6"),
            Uid::of("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")
        );
        assert!(size_of::<Uid>() <= 24);
    }
}
