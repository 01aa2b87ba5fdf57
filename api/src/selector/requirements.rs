//! The requirements of selectors, as authorizers and reviews of access see them (AC-32, AC-38).

use super::fields::{self, Term};
use super::labels::{self, Listed};

/// A requirement, in the form of a FieldSelectorRequirement or LabelSelectorRequirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The field or label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: &'static str,
    /// The values of `In` and `NotIn`; those of labels are sorted.
    pub values: Vec<String>,
}

/// Returns the requirements of a field selector, for any fields, in their order. A text that is not
/// a selector has none.
pub fn field_requirements(text: &str) -> Vec<Requirement> {
    let terms = fields::terms(text).unwrap_or_default();
    let requirement = |term: Term<'_>| Requirement {
        key: term.label.to_owned(),
        operator: if term.is_negated { "NotIn" } else { "In" },
        values: vec![term.value],
    };
    terms.into_iter().map(requirement).collect()
}

/// Returns the requirements of a label selector, sorted by key. A text that is not a selector has
/// none, and comparisons with numbers are left out: no review can show them.
pub fn label_requirements(text: &str) -> Vec<Requirement> {
    let parsed = labels::parse(text).unwrap_or_default();
    let listed = parsed.iter().filter_map(|label| label.listed());
    let mut requirements: Vec<Requirement> = listed
        .map(|Listed(key, operator, values)| Requirement {
            key: key.to_owned(),
            operator,
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        })
        .collect();
    requirements.sort_by(|one, other| one.key.cmp(&other.key));
    requirements
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(requirements: &[Requirement]) -> String {
        let texts = requirements.iter();
        let texts =
            texts.map(|one| format!("{} {} {}", one.key, one.operator, one.values.join(",")));
        texts.collect::<Vec<String>>().join("; ")
    }

    #[test]
    fn field_selectors_are_lists_of_in_and_not_in_ac_38() {
        for (text, expected) in [
            ("", ""),
            ("b=1,a!=2", "b In 1; a NotIn 2"),
            ("a==x\\,y,,=", "a In x,y"),
            ("spec.nodeName=n", "spec.nodeName In n"),
            ("a=", "a In "),
            ("a=1,nonsense", ""),
            ("a=b=c", ""),
        ] {
            assert_eq!(shown(&field_requirements(text)), expected, "{text}");
        }
    }

    #[test]
    fn label_selectors_are_sorted_and_lack_comparisons_ac_38() {
        for (text, expected) in [
            ("", ""),
            ("b=1,a!=2", "a NotIn 2; b In 1"),
            ("a==1", "a In 1"),
            ("a in (y,x),b notin (z)", "a In x,y; b NotIn z"),
            ("b,!a", "a DoesNotExist ; b Exists "),
            ("a>1,b=2", "b In 2"),
            ("a<1", ""),
            ("a in", ""),
        ] {
            assert_eq!(shown(&label_requirements(text)), expected, "{text}");
        }
    }
}
