//! Media type negotiation: the format of a response, and the format of a body (http.md 2.1, 2.4).
//!
//! This folder owns the meaning of `Accept`, `User-Agent`, `Content-Type` and `pretty`. It takes
//! headers, and returns an [`Encoding`] or a [`BodyForm`]. It must not know how either is encoded
//! or decoded.

mod media_type;

use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue};

use super::encoding::{Conversion, Encoding, JSON, MediaTypeRef, MetaVersion, PROTOBUF, YAML};
use crate::api::decode::BodyFormat;
use crate::api::options::Query;

/// `application/json-patch+json`.
pub const JSON_PATCH: &str = "application/json-patch+json";
/// `application/merge-patch+json`.
pub const MERGE_PATCH: &str = "application/merge-patch+json";
/// `application/strategic-merge-patch+json`.
pub const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
/// `application/apply-patch+yaml`.
pub const APPLY_PATCH: &str = "application/apply-patch+yaml";
/// The media types of request bodies.
pub const BODIES: [&str; 3] = [JSON, YAML, PROTOBUF];

/// The formats and conversions that an endpoint offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// Plain documents: discovery documents, Status responses.
    Plain,
    /// Plain documents of paths for which kube-apiserver has no router: errors, API groups
    /// (API-55).
    Unlisted,
    /// Objects, which can also be Tables or metadata.
    Objects,
    /// Objects that cannot be Tables: reviews and other objects that can only be created, and some
    /// subresources.
    WithoutTables,
    /// Lists, with the conversions of objects.
    Lists,
    /// Event streams: JSON and protobuf, with the conversions of objects.
    Watch,
    /// `/api`, which can also be aggregated discovery.
    Discovery,
    /// `/apis`, which can also be aggregated discovery. kube-apiserver has no router for it
    /// (API-55).
    Groups,
}

impl Offer {
    /// Whether some clause must name a media type of the path, before conversions are matched
    /// (API-54, API-55).
    fn is_listed(self) -> bool {
        !matches!(self, Offer::Unlisted | Offer::Groups)
    }

    /// Whether a clause may have the parameter `sv=v1`, the server version.
    fn has_server_version(self) -> bool {
        matches!(
            self,
            Offer::Objects | Offer::WithoutTables | Offer::Lists | Offer::Watch
        )
    }
}

/// No clause of Accept matches an offered form (API-55).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAcceptable {
    /// The offered media types.
    pub offered: Vec<&'static str>,
    /// Whether no clause names a media type of the endpoint, regardless of parameters.
    pub is_unknown: bool,
}

/// Negotiates the form of a response from the headers `Accept` and `User-Agent` and the query
/// parameter `pretty` (API-54, API-60).
///
/// # Errors
/// [`NotAcceptable`], if no clause of `Accept` can be served.
pub fn accept(
    headers: &HeaderMap,
    pretty: Option<bool>,
    offer: Offer,
) -> Result<Encoding, NotAcceptable> {
    accept_of(headers, pretty, offer, Handler::BuiltIn)
}

/// As [`accept`], for the paths of custom resources too. Their handler checks no list of media
/// types first, and has no protobuf for whole objects (CRD-88).
///
/// # Errors
/// [`NotAcceptable`], if no clause of `Accept` can be served.
pub fn accept_of(
    headers: &HeaderMap,
    pretty: Option<bool>,
    offer: Offer,
    handler: Handler,
) -> Result<Encoding, NotAcceptable> {
    let mut encoding = accepted_clause(headers, offer, handler)?;
    encoding.pretty |= pretty.unwrap_or_else(|| is_read_by_people(headers));
    Ok(encoding)
}

/// Returns the value of the query parameter `pretty`, if it has one. Only Go's spellings of true
/// request indented JSON (API-60).
pub fn asked_pretty(query: &Query) -> Option<bool> {
    let text = query.first("pretty").filter(|text| !text.is_empty())?;
    Some(matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True"))
}

/// The handler of kube-apiserver that a path has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    /// That of built-in resources.
    BuiltIn,
    /// That of custom resources.
    Custom,
}

fn accepted_clause(
    headers: &HeaderMap,
    offer: Offer,
    handler: Handler,
) -> Result<Encoding, NotAcceptable> {
    let is_custom = handler == Handler::Custom;
    if accept_header(headers).trim_ascii().is_empty() {
        return Ok(Encoding::default());
    }
    let clauses = clauses(headers);
    let is_named = |clause: &Clause<'_>| clause.named_media_type().is_some();
    if offer.is_listed() && !is_custom && !clauses.iter().any(is_named) {
        return Err(NotAcceptable::of(true, offer));
    }
    let is_offered = |found: &Encoding| {
        !is_custom || found.conversion.is_some() || !found.media_type.is_protobuf()
    };
    let mut matched = clauses.iter().filter_map(|clause| clause.matched(offer));
    let found = matched.find(is_offered);
    let found = found.ok_or_else(|| NotAcceptable::of(false, offer))?;
    // The choice among all media types is final, even if the chosen one has no streams.
    match offer == Offer::Watch && !found.media_type.has_streams() {
        true => Err(NotAcceptable {
            offered: MediaTypeRef::streams().collect(),
            is_unknown: false,
        }),
        false => Ok(found),
    }
}

/// Returns the Accept header. If there are several, the first one counts (API-54).
fn accept_header(headers: &HeaderMap) -> &[u8] {
    let first = headers.get(ACCEPT);
    first.map(HeaderValue::as_bytes).unwrap_or_default()
}

/// Returns the clauses of Accept in the client's order.
fn clauses_as_given(headers: &HeaderMap) -> impl Iterator<Item = Clause<'_>> {
    let texts = accept_header(headers).split(|byte| *byte == b',');
    // A clause that is not UTF-8 matches no media type.
    let texts = texts.filter_map(|text| std::str::from_utf8(text).ok());
    texts.filter_map(Clause::parse)
}

/// Returns the clauses of Accept in order of preference: higher quality first, then fewer
/// wildcards. Equal ones keep the client's order (API-54).
pub(super) fn clauses(headers: &HeaderMap) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = clauses_as_given(headers).collect();
    clauses.sort_by(|a, b| {
        let by_quality = b.quality.total_cmp(&a.quality);
        by_quality.then_with(|| a.wildcards().cmp(&b.wildcards()))
    });
    clauses
}

/// Returns the accepted media types without parameters, in order of preference.
pub fn accepted(headers: &HeaderMap) -> Vec<&str> {
    let clauses = clauses(headers).into_iter();
    clauses.map(|clause| clause.media_type).collect()
}

/// Whether the client accepts JSON, with any parameters (API-38).
pub fn takes_json(headers: &HeaderMap) -> bool {
    let mut clauses = clauses_as_given(headers);
    let json = Some(MediaTypeRef::default());
    accept_header(headers).trim_ascii().is_empty()
        || clauses.any(|clause| clause.named_media_type() == json)
}

impl NotAcceptable {
    fn of(is_unknown: bool, offer: Offer) -> NotAcceptable {
        let (names, streams) = (MediaTypeRef::names(), MediaTypeRef::streams());
        let offered = match offer {
            // Lists and watches share one route, so a 406 of either names the streams too.
            Offer::Lists | Offer::Watch if is_unknown => names.chain(streams).collect(),
            _ => names.collect(),
        };
        NotAcceptable {
            offered,
            is_unknown,
        }
    }
}

/// Whether a person reads the response in a terminal or browser, and so gets indented JSON
/// (API-60).
fn is_read_by_people(headers: &HeaderMap) -> bool {
    headers
        .get(USER_AGENT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|agent| {
            ["curl", "Wget", "Mozilla/5.0"]
                .iter()
                .any(|tool| agent.starts_with(tool))
        })
}

/// One clause of an Accept header.
#[derive(Debug)]
pub(super) struct Clause<'h> {
    pub(super) media_type: &'h str,
    quality: f32,
    parameters: Vec<(&'h str, &'h str)>,
}

impl<'h> Clause<'h> {
    fn parse(text: &'h str) -> Option<Clause<'h>> {
        let mut pieces = text.split(';');
        let media_type = pieces.next()?.trim();
        if media_type.is_empty() {
            return None;
        }
        let mut clause = Clause {
            media_type,
            quality: 1.0,
            parameters: Vec::new(),
        };
        for piece in pieces {
            let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
            // Quotes are a part of the value, as in kube-apiserver's library.
            let (name, value) = (name.trim(), value.trim());
            if name == "q" {
                clause.quality = value.parse().unwrap_or(0.0);
            } else {
                clause.parameters.push((name, value));
            }
        }
        Some(clause)
    }

    /// The number of wildcards in the media type.
    fn wildcards(&self) -> usize {
        self.media_type
            .split('/')
            .filter(|part| *part == "*")
            .count()
    }

    /// Returns the last parameter of this name, if it has a value.
    pub(super) fn parameter(&self, name: &str) -> Option<&'h str> {
        let mut parameters = self.parameters.iter();
        let found = parameters.rfind(|(key, _)| *key == name);
        found
            .map(|(_, value)| *value)
            .filter(|value| !value.is_empty())
    }

    /// Returns the media type without parameters. Unlike in Content-Type, the case matters
    /// (API-54).
    fn named_media_type(&self) -> Option<MediaTypeRef> {
        match self.media_type {
            "*/*" => Some(MediaTypeRef::default()),
            name => MediaTypeRef::named(name),
        }
    }

    /// Returns the encoding that this clause selects, if it can be served.
    fn matched(&self, offer: Offer) -> Option<Encoding> {
        let media_type = match self.media_type {
            "application/*" => MediaTypeRef::default(),
            _ => self.named_media_type()?,
        };
        let has_other = |name: &str, wanted: Option<&str>| {
            let value = self.parameter(name);
            value.is_some_and(|value| Some(value) != wanted)
        };
        let server_version = offer.has_server_version().then_some("v1");
        if has_other("stream", Some("watch")) || has_other("sv", server_version) {
            return None;
        }
        let is_asked = ["as", "g", "v"]
            .iter()
            .any(|name| self.parameter(name).is_some());
        let conversion = match is_asked {
            false => None,
            true => {
                let kind = self.parameter("as").unwrap_or_default();
                let conversion = self.conversion(kind, offer)?;
                // Tables and aggregated discovery cannot be requested in protobuf (API-67).
                let is_text = matches!(
                    conversion,
                    Conversion::Table(_) | Conversion::AggregatedDiscovery
                );
                if is_text && media_type.is_protobuf() {
                    return None;
                }
                Some(conversion)
            }
        };
        Some(Encoding {
            media_type,
            pretty: self.parameter("pretty") == Some("1"),
            conversion,
            ..Encoding::default()
        })
    }

    fn conversion(&self, kind: &str, offer: Offer) -> Option<Conversion> {
        let group = self.parameter("g").unwrap_or_default();
        let version = self.parameter("v").unwrap_or_default();
        match (offer, group, kind, version) {
            (
                Offer::Discovery | Offer::Groups,
                "apidiscovery.k8s.io",
                "APIGroupDiscoveryList",
                "v2",
            ) => Some(Conversion::AggregatedDiscovery),
            (Offer::WithoutTables, _, "Table", _) => None,
            (
                Offer::Objects | Offer::WithoutTables | Offer::Lists | Offer::Watch,
                "meta.k8s.io",
                kind,
                version,
            ) => {
                let version = match version {
                    "v1" => MetaVersion::V1,
                    "v1beta1" => MetaVersion::V1Beta1,
                    _ => return None,
                };
                match kind {
                    "Table" => Some(Conversion::Table(version)),
                    "PartialObjectMetadata" => Some(Conversion::Metadata(version)),
                    "PartialObjectMetadataList" => Some(Conversion::MetadataList(version)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// Returns the media type of a patch: the text of Content-Type before its parameters. Its case and
/// its trailing spaces matter (API-56).
pub fn patch_type(headers: &HeaderMap) -> &str {
    let text = content_type(headers).unwrap_or_default();
    text.split_once(';').map_or(text, |(name, _)| name)
}

/// Whether a Content-Type names one of these media types among others, or with trailing spaces.
pub fn mentions(headers: &HeaderMap, media_types: &[&str]) -> bool {
    let clauses = content_type(headers).unwrap_or_default().split(',');
    let mut names = clauses.filter_map(|clause| clause.split(';').next());
    names.any(|name| media_types.contains(&name.trim()))
}

/// Returns the Content-Type header. One that is not UTF-8 becomes `?`, an unknown type.
fn content_type(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(CONTENT_TYPE)?.as_bytes().trim_ascii();
    Some(std::str::from_utf8(value).unwrap_or("?"))
}

/// The format of a body that holds an object or options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    /// JSON or YAML.
    Text(BodyFormat),
    /// Protobuf, which all built-in kinds support (API-58).
    Protobuf,
}

/// Returns the format of a body that holds an object or options, or `None` if it is unknown.
/// Without a Content-Type it is JSON (API-56).
pub fn body_form(headers: &HeaderMap) -> Option<BodyForm> {
    let media_type = match content_type(headers) {
        None | Some("" | JSON) => return Some(BodyForm::Text(BodyFormat::Json)),
        Some(text) => media_type::of_content(text)?,
    };
    match media_type.as_str() {
        JSON => Some(BodyForm::Text(BodyFormat::Json)),
        YAML => Some(BodyForm::Text(BodyFormat::Yaml)),
        PROTOBUF => Some(BodyForm::Protobuf),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
