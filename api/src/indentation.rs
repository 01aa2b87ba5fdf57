//! The growth of a document through indentation. Many short, deeply nested items can make it a
//! hundred times longer.

/// An indented document may be this many times as long as the compact one.
const GROWTH_MAX: usize = 8;
/// An indented document may always be this long.
const SHORT_BYTES: usize = 1 << 20;

/// Whether a document, given as compact JSON, grows too much when it is indented. Each item and
/// member gets its own line and each level two spaces, as in indented JSON and in YAML.
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
