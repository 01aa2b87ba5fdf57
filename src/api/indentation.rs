//! What indentation makes of a document: of many short items far inside, a hundred times as much.

/// An indented document may be so many times as long as the compact one …
const GROWTH_MAX: usize = 8;
/// … or as long as this, if that is more.
const SHORT_BYTES: usize = 1 << 20;

/// Whether a document, given as compact JSON, grows out of proportion when each item and member has
/// a line of its own, two spaces to a level, as in indented JSON and in YAML.
pub fn is_out_of_proportion(json: &[u8]) -> bool {
    let most = (GROWTH_MAX * json.len()).max(SHORT_BYTES);
    let (mut depth, mut length) = (0_usize, 0_usize);
    let (mut in_text, mut escaped) = (false, false);
    for byte in json {
        length += 1;
        if in_text {
            in_text = escaped || *byte != b'"';
            escaped = !escaped && *byte == b'\\';
            continue;
        }
        match byte {
            b'"' => in_text = true,
            b'{' | b'[' => {
                depth += 1;
                length += 1 + 2 * depth;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                length += 1 + 2 * depth;
            }
            b',' => length += 1 + 2 * depth,
            _ => {}
        }
    }
    length > most
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
}
