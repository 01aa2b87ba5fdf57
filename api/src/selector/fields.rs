//! The grammar of field selectors (API-87): `a=b`, `a==b`, `a!=b`, joined by commas. Backslashes
//! escape `\`, `,` and `=` inside values.

use actors::object::AttributesRef;
use smol_str::SmolStr;

use crate::resource::ResourceDefinition;

/// A requirement on a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FieldRequirement {
    target: Target,
    negated: bool,
    value: SmolStr,
}

/// The attribute of an object that a requirement checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// `metadata.name`.
    Name,
    /// `metadata.namespace`.
    Namespace,
    /// The selectable field at this index of the definition.
    Field(u16),
}

impl FieldRequirement {
    pub(super) fn exact(target: Target, value: &str) -> FieldRequirement {
        FieldRequirement {
            target,
            negated: false,
            value: value.into(),
        }
    }

    /// Returns the exact value that this requirement demands for the target, if any.
    pub(super) fn demands(&self, target: Target) -> Option<&str> {
        (self.target == target && !self.negated).then_some(self.value.as_str())
    }

    /// Returns the index and the exact value, if the requirement demands one for a selectable field
    /// of the resource.
    pub(super) fn demanded_field(&self) -> Option<(usize, &str)> {
        match self.target {
            Target::Field(place) if !self.negated => Some((place.into(), &self.value)),
            Target::Field(_) | Target::Name | Target::Namespace => None,
        }
    }

    pub(super) fn selects(&self, attributes: AttributesRef<'_>) -> bool {
        let actual = match self.target {
            Target::Name => attributes.name(),
            Target::Namespace => attributes.namespace(),
            Target::Field(place) => attributes.field(usize::from(place)),
        };
        (actual == self.value) != self.negated
    }

    /// Appends the requirement to an identity. No label selector contains the leading semicolon.
    pub(super) fn describe(&self, text: &mut String) {
        text.push(';');
        match self.target {
            Target::Name => text.push_str("name"),
            Target::Namespace => text.push_str("namespace"),
            Target::Field(place) => text.push_str(&place.to_string()),
        }
        text.push_str(if self.negated { "!=" } else { "=" });
        for c in self.value.chars() {
            if matches!(c, '\\' | ';') {
                text.push('\\');
            }
            text.push(c);
        }
    }
}

/// Parses a field selector.
///
/// # Errors
/// The fault in the selector, in kube-apiserver's words.
pub(super) fn parse(
    text: &str,
    definition: &ResourceDefinition,
) -> Result<Vec<FieldRequirement>, String> {
    let mut requirements = Vec::new();
    for term in terms(text)? {
        requirements.push(FieldRequirement {
            target: resolve(term.label, definition)?,
            negated: term.is_negated,
            value: term.value.into(),
        });
    }
    Ok(requirements)
}

/// A term of a field selector.
pub(super) struct Term<'t> {
    /// The field.
    pub(super) label: &'t str,
    /// Whether the value must differ.
    pub(super) is_negated: bool,
    /// The value, without escapes.
    pub(super) value: String,
}

/// Returns the terms of a field selector. Empty ones require nothing and are left out.
///
/// # Errors
/// The first term that is none.
pub(super) fn terms(text: &str) -> Result<Vec<Term<'_>>, String> {
    let mut terms = Vec::new();
    for term in split_terms(text)
        .into_iter()
        .filter(|term| !term.is_empty())
    {
        let (label, is_negated, value) = split_term(term)
            .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
        let value = unescape(value)?;
        if !label.is_empty() || !value.is_empty() {
            terms.push(Term {
                label,
                is_negated,
                value,
            });
        }
    }
    Ok(terms)
}

/// Returns whether a text has the form of a field selector.
pub(super) fn is_selector(text: &str) -> bool {
    terms(text).is_ok()
}

/// Returns whether a text is a field selector that demands a value of a field.
pub(super) fn demands(text: &str, label: &str, value: &str) -> bool {
    let is_demanded = |term: &str| match split_term(term) {
        Some((of, false, wanted)) => of == label && unescape(wanted).is_ok_and(|own| own == value),
        Some((_, true, _)) | None => false,
    };
    // linear: each term is looked at once.
    is_selector(text) && split_terms(text).into_iter().any(is_demanded)
}

/// Splits a text at unescaped commas.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(text.get(start..).unwrap_or_default());
    terms
}

/// Splits a term at its first operator into the label, whether the term is negated, and the value.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.char_indices().map(|(at, _)| at).find(|at| {
        let rest = term.get(*at..).unwrap_or_default();
        rest.starts_with("!=") || rest.starts_with('=')
    })?;
    let (label, rest) = term.split_at(at);
    let (negated, value) = match (rest.strip_prefix("!="), rest.strip_prefix("==")) {
        (Some(value), _) => (true, value),
        (None, Some(value)) => (false, value),
        (None, None) => (false, rest.strip_prefix('=')?),
    };
    Some((label, negated, value))
}

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut rest = value.chars();
    while let Some(c) = rest.next() {
        match c {
            '\\' => match rest.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                other => {
                    let sequence: String = other.into_iter().collect();
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: \\{sequence}"
                    ));
                }
            },
            ',' | '=' => {
                return Err(format!(
                    "invalid field selector: unescaped character in value: {}",
                    u32::from(c)
                ));
            }
            other => plain.push(other),
        }
    }
    Ok(plain)
}

/// Returns the attribute with this label, if the resource can be selected by it (API-86, API-215).
fn resolve(label: &str, definition: &ResourceDefinition) -> Result<Target, String> {
    match label {
        "metadata.name" => return Ok(Target::Name),
        "metadata.namespace" if definition.rules().selects_namespace => {
            return Ok(Target::Namespace);
        }
        _ => {}
    }
    let own = definition.behaviour.selectable_fields();
    match (0..)
        .zip(own.iter())
        .find(|(_, field)| field.label == label && field.is_offered)
    {
        Some((place, _)) => Ok(Target::Field(place)),
        // Kinds without selectable fields have another message.
        None if own.is_empty() && !definition.rules().is_unstructured => Err(format!(
            "\"{label}\" is not a known field selector: only \"metadata.name\", \
             \"metadata.namespace\""
        )),
        None => Err(definition.rules().unknown_labels.refusal(label, definition)),
    }
}
