//! Descriptions of a kind's defaulted structs.

/// A description of a defaulted struct.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    pub(super) rules: Vec<ExpectedRule>,
    pub(super) below: Vec<(&'static str, Expected)>,
    pub(super) pairs: Vec<(&'static str, &'static str, Relation)>,
    pub(super) says: Vec<(&'static str, &'static str)>,
    pub(super) others_than: Option<&'static str>,
}

/// A fact that a scan notes about a field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FieldTest {
    pub(super) name: &'static str,
    pub(super) test: Test,
}

/// A property of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Test {
    /// It is not null.
    Given,
    /// It is not null, empty text or negative.
    Has,
    /// It is not null, 0, empty text, or an empty list or map.
    Filled,
    /// It is exactly this JSON.
    Is(&'static str),
    /// It contains these bytes.
    Mentions(&'static str),
}

/// A rule about the fields of a struct.
#[derive(Clone, Debug)]
pub(super) struct ExpectedRule {
    pub(super) when: Vec<FieldTest>,
    pub(super) needs: Needs,
    /// The flag for a struct that lacks the required fields.
    pub(super) flag: u32,
}

#[derive(Clone, Debug)]
pub(super) enum Needs {
    All(Vec<FieldTest>),
    /// The condition alone breaks the rule.
    Nothing,
}

/// The relation between two fields of a complete struct. Both are present or both are absent,
/// except for [`Relation::Keys`], where the second one may be present alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Relation {
    /// The text of the second field begins with these bytes, followed by the first one.
    Begins(&'static str),
    /// The text of the second field contains these bytes, followed by the first one.
    Holds(&'static str),
    /// The second field has all keys of the first one.
    Keys,
}

/// The flag of an incomplete object.
pub(super) const LACKS: u32 = 1;

impl Expected {
    fn rule(mut self, when: Vec<FieldTest>, needs: Needs, flag: u32) -> Expected {
        self.rules.push(ExpectedRule { when, needs, flag });
        self
    }

    /// Requires values for these fields that are not empty text or negative.
    #[must_use]
    pub fn has(self, names: &[&'static str]) -> Expected {
        self.rule(Vec::new(), Needs::All(tests(names, Test::Has)), LACKS)
    }

    /// Requires values for these fields, which may be empty text.
    #[must_use]
    pub fn given(self, names: &[&'static str]) -> Expected {
        self.rule(Vec::new(), Needs::All(tests(names, Test::Given)), LACKS)
    }

    /// Requires values for these fields that are not empty or 0.
    #[must_use]
    pub fn filled(self, names: &[&'static str]) -> Expected {
        self.rule(Vec::new(), Needs::All(tests(names, Test::Filled)), LACKS)
    }

    /// Requires that these fields have no value.
    #[must_use]
    pub fn lacks(mut self, names: &[&'static str]) -> Expected {
        for name in names {
            self = self.rule(tests(&[name], Test::Given), Needs::Nothing, LACKS);
        }
        self
    }

    /// If a field is this JSON, requires values for other fields that are not empty or 0.
    #[must_use]
    pub fn when(self, name: &'static str, is: &'static str, filled: &[&'static str]) -> Expected {
        let when = tests(&[name], Test::Is(is));
        self.rule(when, Needs::All(tests(filled, Test::Filled)), LACKS)
    }

    /// If a field has a value that is not empty or 0, requires such values for other fields.
    #[must_use]
    pub fn when_filled(self, name: &'static str, filled: &[&'static str]) -> Expected {
        let when = tests(&[name], Test::Filled);
        self.rule(when, Needs::All(tests(filled, Test::Filled)), LACKS)
    }

    /// If a field is this JSON, requires that another one has no value.
    #[must_use]
    pub fn excludes(self, name: &'static str, is: &'static str, other: &'static str) -> Expected {
        let mut when = tests(&[name], Test::Is(is));
        when.extend(tests(&[other], Test::Given));
        self.rule(when, Needs::Nothing, LACKS)
    }

    /// If a field has a value, requires values for other fields.
    #[must_use]
    pub fn when_given(self, name: &'static str, given: &[&'static str]) -> Expected {
        let when = tests(&[name], Test::Given);
        self.rule(when, Needs::All(tests(given, Test::Given)), LACKS)
    }

    /// Requires that the text of a field contains this text. A field without a value does not.
    #[must_use]
    pub fn mentions(self, name: &'static str, text: &'static str) -> Expected {
        let needs = Needs::All(tests(&[name], Test::Mentions(text)));
        self.rule(Vec::new(), needs, LACKS)
    }

    /// Requires that the text of a field does not contain this text.
    #[must_use]
    pub fn never_mentions(self, name: &'static str, text: &'static str) -> Expected {
        self.rule(tests(&[name], Test::Mentions(text)), Needs::Nothing, LACKS)
    }

    /// Requires a relation between two fields.
    #[must_use]
    pub fn pair(mut self, one: &'static str, other: &'static str, relation: Relation) -> Expected {
        self.pairs.push((one, other, relation));
        self
    }

    /// Requires this JSON for a member that the type lacks.
    #[must_use]
    pub fn says(mut self, name: &'static str, json: &'static str) -> Expected {
        self.says.push((name, json));
        self
    }

    /// Requires a value for any field other than this one.
    #[must_use]
    pub fn has_other_than(mut self, name: &'static str) -> Expected {
        self.others_than = Some(name);
        self
    }

    /// Sets a flag (2 or higher) if a field is absent or 0. An object is incomplete if it has two
    /// flags that exclude each other ([`Completeness::of`](super::Completeness::of)).
    #[must_use]
    pub fn flag_without(self, name: &'static str, flag: u32) -> Expected {
        self.rule(
            Vec::new(),
            Needs::All(tests(&[name], Test::Filled)),
            1 << flag,
        )
    }

    /// Sets a flag (2 or higher) if a field is this JSON.
    #[must_use]
    pub fn flag_when(self, name: &'static str, is: &'static str, flag: u32) -> Expected {
        let when = tests(&[name], Test::Is(is));
        self.rule(when, Needs::Nothing, 1 << flag)
    }

    /// Requires that the struct in a field is complete, or all structs of its list or map.
    #[must_use]
    pub fn below(mut self, name: &'static str, part: Expected) -> Expected {
        match self.below.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => {
                let before = std::mem::take(known);
                *known = before.and(part);
            }
            None => self.below.push((name, part)),
        }
        self
    }

    /// Requires both descriptions.
    #[must_use]
    pub fn and(mut self, other: Expected) -> Expected {
        self.rules.extend(other.rules);
        self.pairs.extend(other.pairs);
        self.says.extend(other.says);
        self.others_than = self.others_than.or(other.others_than);
        let below = other.below.into_iter();
        below.fold(self, |part, (name, below)| part.below(name, below))
    }
}

/// Returns the same test for each of these fields.
pub(super) fn tests(names: &[&'static str], test: Test) -> Vec<FieldTest> {
    let names = names.iter();
    names.map(|name| FieldTest { name, test }).collect()
}
