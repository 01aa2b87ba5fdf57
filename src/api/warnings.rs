//! Warnings on their way to the headers of an answer.

use std::sync::Arc;

use parking_lot::Mutex;

/// All warnings of an answer together have so many characters; where they have more, each is cut
/// to [`SHORT_WARNING_CHARACTERS`] (API-140).
pub const WARNING_CHARACTERS: usize = 4096;
/// See [`WARNING_CHARACTERS`].
pub const SHORT_WARNING_CHARACTERS: usize = 256;

/// Warnings of one request, in order and without repetition (API-140). What an answer has no room
/// for isn't kept.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Adds a warning unless it was given before.
    pub fn add(&self, text: impl Into<String>) {
        let mut text = text.into();
        if let Some((end, _)) = text.char_indices().nth(WARNING_CHARACTERS) {
            // One character more than there is room for tells that it was cut.
            text.truncate(text.ceil_char_boundary(end + 1));
            text.shrink_to_fit();
        }
        let mut list = self.0.lock();
        let shortest = |text: &String| text.chars().take(SHORT_WARNING_CHARACTERS).count();
        let has_room = list.iter().map(shortest).sum::<usize>() < WARNING_CHARACTERS;
        if has_room && !list.contains(&text) {
            list.push(text);
        }
    }

    /// The warnings so far; none are left.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}
