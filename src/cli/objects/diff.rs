//! The difference between two states of an object, line by line. Pure.

use similar::{ChangeTag, TextDiff};

/// The lines around a change.
const CONTEXT: usize = 3;

/// The lines that differ, with some lines around them; each indented and marked.
pub(super) fn diff(before: &str, after: &str, is_coloured: bool) -> String {
    let diff = TextDiff::from_lines(before, after);
    let mut text = String::new();
    for (number, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
        if number > 0 {
            text.push_str("    ...\n");
        }
        for change in group.iter().flat_map(|one| diff.iter_changes(one)) {
            let (mark, color) = match change.tag() {
                ChangeTag::Equal => (' ', None),
                ChangeTag::Delete => ('-', Some("31")),
                ChangeTag::Insert => ('+', Some("32")),
            };
            let line = format!("  {mark} {}", change.value().trim_end_matches('\n'));
            match color.filter(|_| is_coloured) {
                Some(color) => text.push_str(&format!("\x1b[{color}m{line}\x1b[0m\n")),
                None => text.push_str(&format!("{line}\n")),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_marked_and_coloured_only_when_asked() {
        let plain = diff("a\nb\nc\n", "a\nd\nc\n", false);
        assert_eq!(plain, "    a\n  - b\n  + d\n    c\n");
        let coloured = diff("a\nb\n", "a\n", true);
        assert_eq!(coloured, "    a\n\x1b[31m  - b\x1b[0m\n");
        assert_eq!(diff("a\n", "a\n", true), "");
    }
}
