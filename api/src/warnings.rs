//! The warnings of a request, for the `Warning` headers of its response.

use std::sync::Arc;

use parking_lot::Mutex;

/// The limit on all warnings of a response, in characters. Once they exceed it, each warning is cut
/// to [`SHORT_WARNING_CHARACTERS`] (API-140).
pub const WARNING_CHARACTERS: usize = 4096;
/// The limit on one warning once all exceed [`WARNING_CHARACTERS`].
pub const SHORT_WARNING_CHARACTERS: usize = 256;

/// The warnings of one request, in order and without repetitions (API-140). Warnings beyond the
/// limit are dropped.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<List>>);

#[derive(Debug, Default)]
struct List {
    texts: Vec<String>,
    /// The least number of characters that the texts take when they are sent.
    characters: usize,
}

impl Warnings {
    /// Adds a warning, unless the request already has it.
    pub fn add(&self, text: impl Into<String>) {
        let mut list = self.0.lock();
        if list.is_full() {
            return;
        }
        let mut text = text.into();
        if let Some((end, _)) = text.char_indices().nth(WARNING_CHARACTERS) {
            // One character beyond the limit shows that the text was cut.
            text.truncate(text.ceil_char_boundary(end + 1));
            text.shrink_to_fit();
        }
        if !list.texts.contains(&text) {
            list.characters += text.chars().take(SHORT_WARNING_CHARACTERS).count();
            list.texts.push(text);
        }
    }

    /// Returns whether all further warnings are dropped.
    pub fn is_full(&self) -> bool {
        self.0.lock().is_full()
    }

    /// Takes all warnings.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock()).texts
    }
}

impl List {
    fn is_full(&self) -> bool {
        self.characters >= WARNING_CHARACTERS
    }
}
