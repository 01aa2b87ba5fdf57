//! The user in the headers of a request that impersonates (API-284). Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::api::percent;
use crate::api::status::Status;
use crate::api::user_info::UserInfo;

/// The prefix of all impersonation headers.
const PREFIX: &str = "impersonate-";
const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";

/// Returns the user in the headers, unchecked. `None` if they name nobody.
///
/// # Errors
/// 400 for headers without a user name, and for values that are not plain text.
pub(super) fn wanted(headers: &HeaderMap) -> Result<Option<UserInfo>, Box<Status>> {
    let mut names = headers.keys();
    if !names.any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(None);
    }
    let first = |name| headers.get(name).map_or(Ok(""), text);
    let mut wanted = UserInfo {
        name: first(USER)?.to_owned(),
        uid: first(UID)?.to_owned(),
        groups: all(headers, GROUP)?,
        extra: BTreeMap::new(),
    };
    for name in headers.keys().map(HeaderName::as_str) {
        if let Some(key) = name.strip_prefix(EXTRA) {
            let values = all(headers, name)?;
            wanted
                .extra
                .entry(extra_key(key)?)
                .or_default()
                .extend(values);
        }
    }
    if !wanted.name.is_empty() {
        return Ok(Some(wanted));
    }
    let parts = [
        (!wanted.uid.is_empty(), "a uid"),
        (!wanted.groups.is_empty(), "groups"),
        (!wanted.extra.is_empty(), "extra"),
    ];
    match parts.into_iter().find(|(is_asked, _)| *is_asked) {
        None => Ok(None),
        Some((_, what)) => Err(Box::new(Status::bad_request(format!(
            "requested {what} without impersonating a user name"
        )))),
    }
}

fn all(headers: &HeaderMap, name: &str) -> Result<Vec<String>, Box<Status>> {
    let values = headers.get_all(name).into_iter();
    let texts = values.map(|value| text(value).map(str::to_owned));
    texts.collect()
}

/// Returns the value of a header as text.
fn text(value: &HeaderValue) -> Result<&str, Box<Status>> {
    let text = std::str::from_utf8(value.as_bytes()).ok();
    text.filter(|text| is_plain(text)).ok_or_else(not_plain)
}

/// Returns the key of an extra value, percent-decoded if it is encoded.
fn extra_key(encoded: &str) -> Result<String, Box<Status>> {
    let key = percent::decoded(encoded).map_or_else(|| encoded.to_owned(), Cow::into_owned);
    Some(key).filter(|key| is_plain(key)).ok_or_else(not_plain)
}

/// Whether the text has no control characters. Parts of a user appear in logs and on terminals.
fn is_plain(text: &str) -> bool {
    !text.contains(char::is_control)
}

fn not_plain() -> Box<Status> {
    let message = "an impersonation header is not UTF-8, or has a control character";
    Box::new(Status::bad_request(message))
}
