//! Label and field selectors (API-86, API-87).
//!
//! Contains their grammar and matching. Input is the texts of a request; the result is a predicate
//! over cached objects, or the error of an invalid selector. A selector is parsed once for each
//! request and evaluated once for each object and event, so matching borrows everything and
//! allocates nothing. Nothing here knows caches, watches or storage.

mod fields;
mod labels;
mod requirements;

use actors::object::CachedObject;
use actors::watch::Predicate;
use serde_json::Value;

use crate::resource::ResourceDefinition;
use fields::{FieldRequirement, Target};
use labels::{LabelRequirement, Marks};

pub use requirements::{Requirement, field_requirements, label_requirements};

/// The reason why a selector is refused, a 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The text is not a selector, or names a field that the resource can't be selected by.
    #[error("{0}")]
    Invalid(String),
    /// The field selector requires another name than the path.
    #[error("fieldSelector metadata.name doesn't match requested name")]
    OtherName,
}

/// The label selector and field selector of a request for one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    labels: Box<[Marks]>,
    fields: Box<[FieldRequirement]>,
    /// The canonical text of all requirements. Also holds the keys and values of labels.
    identity: Box<str>,
}

impl Selection {
    /// Parses both selectors. Empty texts select everything.
    ///
    /// # Errors
    /// Invalid selectors, and fields that the resource can't be selected by (API-86).
    pub fn parse(
        labels: &str,
        fields: &str,
        definition: &ResourceDefinition,
    ) -> Result<Selection, SelectorError> {
        let labels = labels::parse(labels).map_err(SelectorError::Invalid)?;
        let fields = fields::parse(fields, definition).map_err(SelectorError::Invalid)?;
        Ok(Selection::of(labels, fields))
    }

    /// Parses a label selector alone. An empty text selects everything.
    ///
    /// # Errors
    /// The text is not a selector.
    pub fn of_labels(text: &str) -> Result<Selection, SelectorError> {
        let labels = labels::parse(text).map_err(SelectorError::Invalid)?;
        Ok(Selection::of(labels, Vec::new()))
    }

    /// Returns a label without which nothing is selected, if there is one.
    pub fn demanded_label(&self) -> Option<&str> {
        let mut labels = self.labels.iter();
        let found = labels.find(|label| !label.selects(&self.identity, None))?;
        Some(found.key(&self.identity))
    }

    /// Returns whether labels satisfy the label selector. `labels` is the `metadata.labels` of an
    /// object, if it has any.
    pub fn selects_labels(&self, labels: Option<&Value>) -> bool {
        let value = |key: &str| labels?.get(key)?.as_str();
        let text = &self.identity;
        let mut requirements = self.labels.iter();
        requirements.all(|one| one.selects(text, value(one.key(text))))
    }

    /// Returns whether a text is a valid label selector.
    pub fn reads_labels(text: &str) -> bool {
        labels::parse(text).is_ok()
    }

    /// Returns whether a text is a valid field selector, for any fields.
    pub fn reads_fields(text: &str) -> bool {
        fields::is_selector(text)
    }

    /// Returns whether a field selector demands this value of a field. A text that is not a
    /// selector demands nothing (AC-32).
    pub fn demands(fields: &str, label: &str, value: &str) -> bool {
        fields::demands(fields, label, value)
    }

    /// Combines both selectors. Requirements are sorted, because their order has no meaning and
    /// equal selections must have the same identity.
    fn of(mut labels: Vec<LabelRequirement<'_>>, mut fields: Vec<FieldRequirement>) -> Selection {
        labels.sort();
        labels.dedup();
        fields.sort();
        fields.dedup();
        let mut identity = String::new();
        let labels = labels.iter().map(|label| label.describe(&mut identity));
        let labels = labels.collect();
        for requirement in &fields {
            requirement.describe(&mut identity);
        }
        Selection {
            labels,
            fields: fields.into(),
            identity: identity.into(),
        }
    }

    /// Restricts the selection to one object, for a path with a name (WA-4).
    ///
    /// # Errors
    /// The field selector requires another name.
    pub fn with_name(mut self, name: &str) -> Result<Selection, SelectorError> {
        if !self.fields.is_empty() {
            return match self.exact_name() {
                Some(selected) if selected == name => Ok(self),
                _ => Err(SelectorError::OtherName),
            };
        }
        let named = FieldRequirement::exact(Target::Name, name);
        let mut identity = self.identity.into_string();
        named.describe(&mut identity);
        self.identity = identity.into();
        self.fields = Box::new([named]);
        Ok(self)
    }

    /// Returns whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Returns the `metadata.name` that the selector requires, if any (RG-2).
    pub fn exact_name(&self) -> Option<&str> {
        self.exact(Target::Name)
    }

    /// Returns the `metadata.namespace` that the selector requires, if any (RG-2).
    pub fn exact_namespace(&self) -> Option<&str> {
        self.exact(Target::Namespace)
    }

    fn exact(&self, target: Target) -> Option<&str> {
        self.fields
            .iter()
            .find_map(|requirement| requirement.demands(target))
    }
}

impl Predicate for Selection {
    fn matches(&self, object: &CachedObject) -> bool {
        let attributes = object.attributes();
        let fields = &mut self.fields.iter();
        let (labels, text) = (&mut self.labels.iter(), &self.identity);
        // Requirements are sorted by key, so one pass over the labels suffices.
        let mut known = attributes.labels();
        fields.all(|requirement| requirement.selects(attributes))
            && labels.all(|label| label.selects(text, known.value(label.key(text))))
    }

    fn identity(&self) -> &str {
        &self.identity
    }

    fn demanded_field(&self) -> Option<(usize, &str)> {
        self.fields
            .iter()
            .find_map(FieldRequirement::demanded_field)
    }

    fn demanded_value(&self, place: usize) -> Option<&str> {
        let mut demanded = self
            .fields
            .iter()
            .filter_map(FieldRequirement::demanded_field);
        demanded.find_map(|(other, value)| (other == place).then_some(value))
    }
}

#[cfg(test)]
mod tests;
