//! The growth of a document through indentation. It can make a document of many short, deeply
//! nested items a hundred times longer.

/// The most times that an indented document may be longer than the compact one.
const GROWTH_MAX: usize = 8;
/// The length in bytes up to which an indented document is always allowed.
const SHORT_BYTES: usize = 1 << 20;

/// Returns whether a document, given as compact JSON, grows too much through indentation.
pub fn is_out_of_proportion(json: &[u8]) -> bool {
    let mut growth = Growth::default();
    growth.push(json);
    growth.is_out_of_proportion()
}

/// Returns the length of the rest of a JSON text up to and including its closing quote, and whether
/// the quote was found. Without it the length is that of all bytes, and `escaped` says whether the
/// next byte is escaped.
pub fn text_length(json: &[u8], escaped: &mut bool) -> (usize, bool) {
    if json.is_empty() {
        return (0, false);
    }
    let mut length = usize::from(std::mem::take(escaped));
    while let Some(rest) = json.get(length..)
        && let Some(at) = memchr::memchr2(b'"', b'\\', rest)
    {
        length += at + 1;
        if rest.get(at) == Some(&b'"') {
            return (length, true);
        }
        *escaped = length == json.len();
        length += usize::from(!*escaped);
    }
    (json.len(), false)
}

/// The length of a document after indentation, computed piece by piece. Each item and member takes
/// its own line and each level two spaces, as in indented JSON and in YAML.
#[derive(Clone, Copy, Debug, Default)]
pub struct Growth {
    compact: usize,
    indented: usize,
    depth: usize,
    deepest: usize,
    in_text: bool,
    escaped: bool,
}

impl Growth {
    /// Counts the next piece of compact JSON.
    pub fn push(&mut self, json: &[u8]) {
        self.compact += json.len();
        self.indented += json.len();
        let mut rest = json;
        loop {
            if self.in_text {
                let (length, has_ended) = text_length(rest, &mut self.escaped);
                self.in_text = !has_ended;
                rest = rest.get(length..).unwrap_or_default();
            }
            let Some((byte, following)) = rest.split_first() else {
                return;
            };
            rest = following;
            match byte {
                b'"' => self.in_text = true,
                b'{' | b'[' => {
                    self.depth += 1;
                    self.deepest = self.deepest.max(self.depth);
                    self.indented += 1 + 2 * self.depth;
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.indented += 1 + 2 * self.depth;
                }
                b',' => self.indented += 1 + 2 * self.depth,
                _ => {}
            }
        }
    }

    /// Returns the approximate length of the indented document.
    pub fn indented(&self) -> usize {
        self.indented
    }

    /// Returns the number of levels.
    pub fn deepest(&self) -> usize {
        self.deepest
    }

    /// Returns whether the document grows too much.
    pub fn is_out_of_proportion(&self) -> bool {
        self.indented > (GROWTH_MAX * self.compact).max(SHORT_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize, items: usize) -> String {
        let zeros = vec!["0"; items].join(",");
        format!("{}{zeros}{}", "[".repeat(depth), "]".repeat(depth))
    }

    #[test]
    fn many_items_far_inside_are_out_of_proportion_and_ordinary_objects_are_not() {
        assert!(is_out_of_proportion(nested(90, 100_000).as_bytes()));
        assert!(!is_out_of_proportion(nested(90, 1_000).as_bytes()), "short");
        assert!(!is_out_of_proportion(nested(5, 1_000_000).as_bytes()));
        let text = format!(r#"{{"a":"{}\\","b":[1]}}"#, r#"[\"{,"#.repeat(500_000));
        assert!(!is_out_of_proportion(text.as_bytes()), "in a text");
    }

    #[test]
    fn pieces_count_like_the_whole() {
        let text = format!(
            r#"{{"a\\\"":"x\"{{,\\","b":[1,{{}},[2,"\\"]],"c":{}}}"#,
            nested(3, 9)
        );
        let mut whole = Growth::default();
        whole.push(text.as_bytes());
        for size in 1..text.len() {
            let mut growth = Growth::default();
            for piece in text.as_bytes().chunks(size) {
                growth.push(piece);
            }
            assert_eq!(growth.indented(), whole.indented(), "{size}");
        }
    }
}
