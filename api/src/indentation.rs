//! The growth of a document through indentation. Many short, deeply nested items can make it a
//! hundred times longer.

/// An indented document may be this many times as long as the compact one.
const GROWTH_MAX: usize = 8;
/// An indented document may always be this long.
const SHORT_BYTES: usize = 1 << 20;

/// Whether a document, given as compact JSON, grows too much when it is indented.
pub fn is_out_of_proportion(json: &[u8]) -> bool {
    let mut growth = Growth::default();
    growth.push(json);
    growth.is_out_of_proportion()
}

/// The length of the rest of a JSON text with its closing quote, or all bytes if they do not have
/// that. Then it says whether the next byte is escaped.
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

/// What becomes of a document through indentation, counted piece by piece. Each item and member
/// gets its own line and each level two spaces, as in indented JSON and in YAML.
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
            let Some((byte, behind)) = rest.split_first() else {
                return;
            };
            rest = behind;
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

    /// How long the indented document is, about.
    pub fn indented(&self) -> usize {
        self.indented
    }

    /// How many levels it has.
    pub fn deepest(&self) -> usize {
        self.deepest
    }

    /// Whether the document grows too much.
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
    fn pieces_count_as_the_whole_does() {
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
