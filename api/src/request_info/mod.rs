//! The meaning of a URL and a method, independent of which resources exist (API-1 to API-11).
//!
//! Contains the whole URL grammar. Input is path, method and query; the result is a
//! [`RequestInfo`], which routes look up. Pure: nothing here knows which resources exist.

use http::Method;
use smol_str::SmolStr;

use crate::percent;

/// The attributes of a request for authorization and routing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// The path, percent-decoded once (API-11).
    pub path: String,
    /// `get`, `list`, `watch`, `create`, … for resources, otherwise the method in lower case.
    pub verb: SmolStr,
    /// Whether the path names a resource (API-1).
    pub is_resource: bool,
    /// The API group, empty for the core group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The namespace. For a Namespace it is the object's own name (API-4).
    pub namespace: String,
    /// The plural of the resource.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The name of the object. For lists and watches it is the name that the field selector
    /// requires (API-7).
    pub name: String,
    /// Whether the path contains the name.
    pub is_named: bool,
    /// Whether the path contains `namespaces/{namespace}/` before the resource.
    pub is_below_namespace: bool,
    /// Whether the path has the deprecated `watch` prefix (API-3).
    pub is_watch_path: bool,
    /// The path segments after the subresource.
    pub rest: Vec<String>,
}

/// The error for a URL that can't be parsed.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RequestInfoError {
    /// A path without a resource, such as `/api/v1/watch`. The response is 500 as text (API-3).
    #[error("failed to create RequestInfo: unable to determine kind and namespace from url, {0}")]
    NoResource(String),
    /// A `%` without two hexadecimal digits. The response is 400 as text.
    #[error("invalid percent-encoding in the path {0:?}")]
    BadEncoding(String),
}

/// The subresources for long-lived connections, which have no time limit.
const LONG_SUBRESOURCES: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];

/// Operator paths without a time limit, because they may read the whole store.
const LONG_PATHS: [&str; 3] = [
    "taffrail/v1/backup",
    "taffrail/v1/compact",
    "taffrail/v1/storage/rewrite",
];
const LEGACY_PREFIX: &str = "api";
const GROUP_PREFIX: &str = "apis";
/// Third path segments that belong to the Namespace object and are not a resource within it
/// (API-4).
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl RequestInfo {
    /// Parses a raw path. `watch` and `field_selector` are the query parameters of these meanings.
    ///
    /// # Errors
    /// Paths without a resource (API-3) and broken percent-encoding.
    pub fn parse(
        method: &Method,
        raw_path: &str,
        watch: bool,
        field_selector: &str,
    ) -> Result<RequestInfo, RequestInfoError> {
        let path = percent::decoded(raw_path)
            .ok_or_else(|| RequestInfoError::BadEncoding(raw_path.to_owned()))?
            .into_owned();
        let mut info = RequestInfo {
            verb: SmolStr::from(method.as_str().to_ascii_lowercase()),
            ..RequestInfo::default()
        };
        let trimmed = path.trim_matches('/').to_owned();
        info.path = path;
        let parts: Vec<&str> = trimmed.split('/').collect();
        let Some(parts) = info.take_group_version(&parts) else {
            return Ok(info);
        };
        info.is_resource = true;
        let parts = info.take_verb(parts, method)?;
        let parts = info.take_namespace(parts);
        info.take_object(parts);
        info.finish_verb(watch, field_selector);
        Ok(info)
    }

    /// Returns whether the request only reads, which decides its limit of requests in flight
    /// (API-19).
    pub fn is_read_only(&self) -> bool {
        matches!(self.verb.as_str(), "get" | "list" | "watch")
    }

    /// Returns whether the request may run without a time limit (API-16). Compacting or backing up
    /// a large store can take long.
    pub fn is_long_running(&self) -> bool {
        match self.is_resource {
            true => {
                matches!(self.verb.as_str(), "watch" | "proxy")
                    || LONG_SUBRESOURCES.contains(&self.subresource.as_str())
            }
            false => LONG_PATHS.contains(&self.path.trim_matches('/')),
        }
    }

    /// Takes prefix, group and version. Returns `None` for paths that name no resource (API-1).
    fn take_group_version<'p>(&mut self, parts: &'p [&'p str]) -> Option<&'p [&'p str]> {
        let (prefix, rest) = parts.split_first()?;
        let rest = match *prefix {
            LEGACY_PREFIX if rest.len() >= 2 => rest,
            GROUP_PREFIX if rest.len() >= 3 => {
                let (group, rest) = rest.split_first()?;
                self.group = (*group).to_owned();
                rest
            }
            _ => return None,
        };
        let (version, rest) = rest.split_first()?;
        self.version = (*version).to_owned();
        Some(rest)
    }

    /// Takes the verb from the path (`watch`, `proxy`) or the method (API-2, API-3).
    fn take_verb<'p>(
        &mut self,
        parts: &'p [&'p str],
        method: &Method,
    ) -> Result<&'p [&'p str], RequestInfoError> {
        match parts.split_first() {
            Some((&special @ ("watch" | "proxy"), rest)) => {
                if rest.is_empty() {
                    return Err(RequestInfoError::NoResource(self.path.clone()));
                }
                self.is_watch_path = special == "watch";
                self.verb = SmolStr::from(special);
                Ok(rest)
            }
            _ => {
                self.verb = SmolStr::new_static(match *method {
                    Method::POST => "create",
                    Method::GET | Method::HEAD => "get",
                    Method::PUT => "update",
                    Method::PATCH => "patch",
                    Method::DELETE => "delete",
                    _ => "",
                });
                Ok(parts)
            }
        }
    }

    /// Takes `namespaces/{namespace}`, which stays part of the path for Namespace objects (API-4).
    fn take_namespace<'p>(&mut self, parts: &'p [&'p str]) -> &'p [&'p str] {
        let ["namespaces", namespace, rest @ ..] = parts else {
            return parts;
        };
        self.namespace = (*namespace).to_owned();
        match rest.first() {
            Some(next) if !NAMESPACE_SUBRESOURCES.contains(next) => {
                self.is_below_namespace = true;
                rest
            }
            _ => parts,
        }
    }

    /// Takes resource, name, subresource and the rest (API-5).
    fn take_object(&mut self, parts: &[&str]) {
        let mut parts = parts.iter().map(|part| (*part).to_owned());
        self.resource = parts.next().unwrap_or_default();
        self.name = parts.next().unwrap_or_default();
        self.is_named = !self.name.is_empty();
        if self.verb == "proxy" {
            self.rest = parts.collect();
            return;
        }
        self.subresource = parts.next().unwrap_or_default();
        self.rest = parts.collect();
    }

    /// Changes the verb for collections: get becomes list or watch, delete becomes deletecollection
    /// (API-6 to API-8).
    fn finish_verb(&mut self, watch: bool, field_selector: &str) {
        if self.is_named {
            return;
        }
        match self.verb.as_str() {
            "get" => {
                self.verb = SmolStr::new_static(if watch { "watch" } else { "list" });
            }
            "delete" => self.verb = SmolStr::new_static("deletecollection"),
            _ => {}
        }
        if matches!(self.verb.as_str(), "list" | "watch")
            && let Some(name) = demanded_name(field_selector)
        {
            self.name = name;
        }
    }
}

/// Returns whether a pattern matches a path that names no resource. A star at its end matches any
/// suffix.
pub fn covers(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => path == pattern,
    }
}

/// Returns the name that a field selector requires with `metadata.name=x`, if it is valid in a path
/// (API-7). Invalid selectors are refused later, when they are parsed in full.
fn demanded_name(field_selector: &str) -> Option<String> {
    let name = field_selector.split(',').find_map(|term| {
        let value = term.trim().strip_prefix("metadata.name=")?;
        Some(value.strip_prefix('=').unwrap_or(value))
    })?;
    let can_stand_in_a_path =
        !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '%', '\\']);
    can_stand_in_a_path.then(|| name.to_owned())
}

#[cfg(test)]
mod tests;
