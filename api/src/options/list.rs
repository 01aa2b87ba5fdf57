//! The options of list and watch (LI-1, WA-3, WA-5).

use super::{OptionsError, Query, is_yes, refuse};
use crate::field_error::FieldError;
use crate::version::VersionMatch;

/// `resourceVersionMatch` as the client sent it, so that validation can report an unknown value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionMatchText {
    /// `Exact`.
    Exact,
    /// `NotOlderThan`.
    NotOlderThan,
    /// Any other value, which validation refuses.
    Other(String),
}

impl VersionMatchText {
    fn of(text: &str) -> VersionMatchText {
        match text {
            "Exact" => VersionMatchText::Exact,
            "NotOlderThan" => VersionMatchText::NotOlderThan,
            other => VersionMatchText::Other(other.to_owned()),
        }
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        match self {
            VersionMatchText::Exact => "Exact",
            VersionMatchText::NotOlderThan => "NotOlderThan",
            VersionMatchText::Other(text) => text,
        }
    }

    /// Returns the value for storage, or `None` for a value that validation refuses.
    pub fn known(&self) -> Option<VersionMatch> {
        match self {
            VersionMatchText::Exact => Some(VersionMatch::Exact),
            VersionMatchText::NotOlderThan => Some(VersionMatch::NotOlderThan),
            VersionMatchText::Other(_) => None,
        }
    }
}

/// The options of list and watch (http.md 3.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// `labelSelector`, not parsed yet.
    pub labels: String,
    /// `fieldSelector`, not parsed yet.
    pub fields: String,
    /// `resourceVersion`, not parsed yet.
    pub resource_version: String,
    /// `resourceVersionMatch`.
    pub version_match: Option<VersionMatchText>,
    /// `limit`. 0 means no limit.
    pub limit: usize,
    /// `continue`.
    pub continue_token: Option<String>,
    /// `timeoutSeconds`. 0 means unset. Negative values become 0.
    pub timeout_seconds: Option<u64>,
    /// `watch`.
    pub watch: bool,
    /// `allowWatchBookmarks`.
    pub bookmarks: bool,
    /// `sendInitialEvents`.
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Parses the parameters.
    ///
    /// # Errors
    /// 400 for an invalid number (API-78).
    pub fn parse(query: &Query) -> Result<ListOptions, OptionsError> {
        let non_empty = |name: &str| query.first(name).filter(|text| !text.is_empty());
        let limit = query.integer("limit")?.unwrap_or(0);
        let timeout = query.integer("timeoutSeconds")?.filter(|&asked| asked != 0);
        Ok(ListOptions {
            labels: query.text("labelSelector"),
            fields: query.text("fieldSelector"),
            resource_version: query.text("resourceVersion"),
            version_match: non_empty("resourceVersionMatch").map(VersionMatchText::of),
            limit: usize::try_from(limit).unwrap_or(0),
            continue_token: non_empty("continue").map(str::to_owned),
            timeout_seconds: timeout.map(|asked| u64::try_from(asked).unwrap_or(0)),
            watch: query.flag("watch"),
            bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events: query.first("sendInitialEvents").map(is_yes),
        })
    }

    /// Validates the options of a list (LI-1, API-84).
    ///
    /// # Errors
    /// 422 with kind ListOptions.
    pub fn validate_list(&self) -> Result<(), OptionsError> {
        let mut errors = Vec::new();
        let path = "resourceVersionMatch";
        if let Some(version_match) = &self.version_match {
            if self.resource_version.is_empty() {
                let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(FieldError::forbidden(path, detail));
            }
            errors.extend(self.match_with_continue());
            match version_match {
                VersionMatchText::Other(text) => errors.push(FieldError::not_supported(
                    path,
                    text.as_str(),
                    &["Exact", "NotOlderThan", ""],
                )),
                VersionMatchText::Exact if self.resource_version == "0" => {
                    let detail =
                        "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                    errors.push(FieldError::forbidden(path, detail));
                }
                _ => {}
            }
        }
        if self.send_initial_events.is_some() {
            let detail = "sendInitialEvents is forbidden for list";
            errors.push(FieldError::forbidden("sendInitialEvents", detail));
        }
        refuse("ListOptions", errors)
    }

    /// Validates the options of a watch (WA-3, API-84), with or without the feature gate WatchList.
    /// With it, call [`ListOptions::default_watch`] first.
    ///
    /// # Errors
    /// 422 with kind ListOptions.
    pub fn validate_watch(&self, has_watch_list: bool) -> Result<(), OptionsError> {
        let mut errors = Vec::new();
        let path = "resourceVersionMatch";
        let not_older = self.version_match == Some(VersionMatchText::NotOlderThan);
        if self.send_initial_events.is_some() && !not_older {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(path, detail));
        }
        if self.send_initial_events.is_some() && !has_watch_list {
            let detail = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            errors.push(FieldError::forbidden("sendInitialEvents", detail));
        }
        if let Some(version_match) = &self.version_match {
            if self.send_initial_events.is_none() {
                let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(path, detail));
            }
            if !not_older {
                let supported = &["NotOlderThan"];
                errors.push(FieldError::not_supported(
                    path,
                    version_match.as_str(),
                    supported,
                ));
            }
            errors.extend(self.match_with_continue());
        }
        refuse("ListOptions", errors)
    }

    /// Sets `sendInitialEvents` for a plain watch without resourceVersion or from 0, so that it
    /// starts with the current state (WA-5, API-85).
    pub fn default_watch(&mut self) {
        let plain = self.send_initial_events.is_none() && self.version_match.is_none();
        if plain && matches!(self.resource_version.as_str(), "" | "0") {
            self.send_initial_events = Some(true);
            self.version_match = Some(VersionMatchText::NotOlderThan);
        }
    }

    fn match_with_continue(&self) -> Option<FieldError> {
        let detail = "resourceVersionMatch is forbidden when continue is provided";
        self.continue_token
            .as_ref()
            .map(|_| FieldError::forbidden("resourceVersionMatch", detail))
    }
}
