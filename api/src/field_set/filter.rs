//! The fields that count for ownership at an endpoint (API-179).

use super::{FieldSet, Node, PathElement};

/// A selection of fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// All fields except these and those below them.
    Exclude(FieldSet),
    /// The fields on one of these paths and below. `None` matches any element.
    Include(Vec<Vec<Option<PathElement>>>),
}

impl Filter {
    /// Returns the selected fields of a set.
    pub fn of(&self, set: &FieldSet) -> FieldSet {
        match self {
            Filter::Exclude(fields) => set.recursive_difference(fields),
            Filter::Include(paths) => {
                let paths: Vec<&[Option<PathElement>]> = paths.iter().map(Vec::as_slice).collect();
                included(set, &paths)
            }
        }
    }
}

fn included(set: &FieldSet, paths: &[&[Option<PathElement>]]) -> FieldSet {
    let mut chosen = FieldSet::default();
    for node in set.nodes() {
        let rests = paths.iter().filter_map(|path| match path {
            [Some(element), rest @ ..] if *element == node.element => Some(rest),
            [None, rest @ ..] => Some(rest),
            _ => None,
        });
        let rests: Vec<&[Option<PathElement>]> = rests.collect();
        if rests.is_empty() {
            continue;
        }
        chosen.push(Node {
            element: node.element.clone(),
            is_member: node.is_member,
            // linear: a filter has few paths.
            below: match rests.iter().any(|rest| rest.is_empty()) {
                true => node.below.clone(),
                false => included(&node.below, &rests),
            },
        });
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-179.
    #[test]
    fn fields_are_chosen() {
        let text = concat!(
            r#"{"f:a":{".":{},"f:b":{".":{},"f:c":{}},"f:d":{"f:c":{},"f:e":{}}},"#,
            r#""f:f":{"f:c":{}}}"#,
        );
        let set = FieldSet::from_fields_v1(text).unwrap();
        let read = |text: &str| FieldSet::from_fields_v1(text).unwrap();
        let without = Filter::Exclude(read(r#"{"f:a":{"f:b":{}},"f:f":{}}"#));
        let left = r#"{"f:a":{".":{},"f:d":{"f:c":{},"f:e":{}}}}"#;
        assert_eq!(without.of(&set), read(left));
        let field = |name| Some(PathElement::field(name));
        let only = Filter::Include(vec![
            vec![field("a"), None, field("c")],
            vec![field("a"), field("d"), field("x")],
        ]);
        let left = r#"{"f:a":{".":{},"f:b":{".":{},"f:c":{}},"f:d":{"f:c":{}}}}"#;
        assert_eq!(only.of(&set), read(left));
        assert!(Filter::Include(Vec::new()).of(&set).is_empty());
    }
}
