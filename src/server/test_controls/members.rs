//! Pure. Reads the members of a JSON object, with errors that name the place in the document.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::api::text::go_duration;
use crate::api::text::quoting::go_quote;

/// The members of an object, all of which are known.
pub struct Members<'v> {
    place: String,
    members: &'v Map<String, Value>,
}

impl<'v> Members<'v> {
    /// Takes the object at a place, which may have these members. The place of the whole document
    /// is empty.
    ///
    /// # Errors
    /// The value is not an object, or it has other members.
    pub fn of(place: &str, value: &'v Value, known: &[&str]) -> Result<Members<'v>, String> {
        let Value::Object(members) = value else {
            let place = match place {
                "" => "the document",
                place => place,
            };
            return Err(format!("{place}: must be an object"));
        };
        let found = Members {
            place: place.to_owned(),
            members,
        };
        // linear: a handful of names
        match members.keys().find(|name| !known.contains(&name.as_str())) {
            Some(name) => Err(format!(
                "{}: is not known; known are {}",
                found.place(name),
                known.join(", ")
            )),
            None => Ok(found),
        }
    }

    /// Returns the place of a member.
    pub fn place(&self, name: &str) -> String {
        match self.place.as_str() {
            "" => name.to_owned(),
            place => format!("{place}.{name}"),
        }
    }

    /// Returns a member, unless it is absent or null.
    pub fn value(&self, name: &str) -> Option<&'v Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    /// Returns the items of a list, with their places. An absent list is empty.
    ///
    /// # Errors
    /// The member is not a list, or too long.
    pub fn list(&self, name: &str, most: usize) -> Result<Vec<(String, &'v Value)>, String> {
        let place = self.place(name);
        match self.value(name) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) if items.len() > most => Err(format!(
                "{place}: {} are too many; at most {most} are possible",
                items.len()
            )),
            Some(Value::Array(items)) => {
                let items = items.iter().enumerate();
                Ok(items
                    .map(|(number, item)| (format!("{place}[{number}]"), item))
                    .collect())
            }
            Some(_) => Err(format!("{place}: must be a list")),
        }
    }

    /// Returns the texts of a list. `fault` says why a text is wrong.
    ///
    /// # Errors
    /// The member is not a list, too long, or an item is wrong.
    pub fn texts(
        &self,
        name: &str,
        most: usize,
        fault: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<String>, String> {
        let items = self.list(name, most)?.into_iter();
        let texts = items.map(|(place, item)| match item {
            Value::String(text) if text.is_empty() => Err(format!("{place}: is empty")),
            Value::String(text) => match fault(text) {
                Some(fault) => Err(format!("{place}: {} {fault}", go_quote(text))),
                None => Ok(text.clone()),
            },
            _ => Err(format!("{place}: must be a text")),
        });
        texts.collect()
    }

    /// Returns a whole number within bounds.
    ///
    /// # Errors
    /// The member is not such a number.
    pub fn whole(&self, name: &str, bounds: RangeInclusive<u64>) -> Result<Option<u64>, String> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        let number = value.as_u64().filter(|number| bounds.contains(number));
        number.map(Some).ok_or_else(|| {
            let (least, most) = bounds.into_inner();
            format!(
                "{}: must be a whole number from {least} to {most}",
                self.place(name)
            )
        })
    }

    /// Returns a number from 0 to 1.
    ///
    /// # Errors
    /// The member is not such a number.
    pub fn rate(&self, name: &str) -> Result<Option<f64>, String> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        let rate = value.as_f64().filter(|rate| (0.0..=1.0).contains(rate));
        let wrong = || format!("{}: must be a number from 0 to 1", self.place(name));
        rate.map(Some).ok_or_else(wrong)
    }

    /// Returns a duration in Go's notation. An absent one is zero.
    ///
    /// # Errors
    /// The member is not a duration, negative or too long.
    pub fn duration(&self, name: &str, most: Duration) -> Result<Duration, String> {
        let place = self.place(name);
        let text = match self.value(name) {
            None => return Ok(Duration::ZERO),
            Some(Value::String(text)) => text,
            Some(_) => return Err(format!("{place}: must be a text such as \"50ms\"")),
        };
        let nanos = go_duration::parse(text).map_err(|error| format!("{place}: {error}"))?;
        let duration = u64::try_from(nanos).ok().map(Duration::from_nanos);
        duration
            .filter(|duration| *duration <= most)
            .ok_or_else(|| {
                let most = go_duration::printed(go_duration::nanos(most));
                format!("{place}: must be from 0s to {most}")
            })
    }
}
