//! The valid values of scalars, and the keys of lists.

/// The valid values of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// A text.
    String,
    /// A number.
    Number,
    /// A boolean.
    Bool,
    /// Any scalar.
    Any,
}

/// The keys of a list's items.
#[derive(Clone, Copy)]
pub enum Items<'s> {
    /// None: the list is owned as a whole.
    Atomic,
    /// Their values (`x-kubernetes-list-type: set`).
    Set,
    /// Some of their fields (`x-kubernetes-list-type: map`).
    Map(Keys<'s>),
}

/// The names of the key fields.
#[derive(Clone, Copy)]
pub enum Keys<'s> {
    /// One name.
    One(&'s String),
    /// Several names.
    Several(&'s [String]),
}

impl<'s> Keys<'s> {
    pub(super) fn names(self) -> &'s [String] {
        match self {
            Keys::One(name) => std::slice::from_ref(name),
            Keys::Several(names) => names,
        }
    }
}
