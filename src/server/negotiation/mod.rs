//! Media type negotiation: the format of a response, and the format of a body (http.md 2.1, 2.4).
//!
//! This folder owns the meaning of `Accept`, `User-Agent`, `Content-Type` and `pretty`. Headers
//! enter, and an [`Encoding`] or a [`BodyForm`] leaves. It must not know how either is written or
//! read.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};

use super::encoding::{Conversion, Encoding, JSON, MediaTypeRef, MetaVersion, PROTOBUF, YAML};
use crate::api::decode::BodyFormat;

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
    /// Plain documents of paths without a list of their own media types: errors, API groups.
    Unlisted,
    /// Objects, which can also be Tables or metadata.
    Objects,
    /// Objects that can only be created, such as reviews. They have no Tables.
    CreatedOnly,
    /// Lists, with the conversions of objects.
    Lists,
    /// Event streams: JSON and protobuf, with the conversions of objects.
    Watch,
    /// `/api`, which can also be aggregated.
    Discovery,
    /// `/apis`, which can also be aggregated and has no list of its own.
    Groups,
}

impl Offer {
    /// Whether a clause must name a media type of the path, before anything else is asked (API-54,
    /// API-55).
    fn is_listed(self) -> bool {
        !matches!(self, Offer::Unlisted | Offer::Groups)
    }
}

/// The client accepts nothing that is offered (API-55).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAcceptable {
    /// The media types on offer.
    pub offered: Vec<&'static str>,
    /// No clause has a media type of the endpoint, whatever its parameters.
    pub is_unknown: bool,
}

/// Chooses the form of a response by the headers `Accept` and `User-Agent` and the query parameter
/// `pretty` (API-54, API-60).
///
/// # Errors
/// No clause of `Accept` can be served.
pub fn accept(
    headers: &HeaderMap,
    pretty: Option<bool>,
    offer: Offer,
) -> Result<Encoding, NotAcceptable> {
    let mut encoding = accepted_clause(headers, offer)?;
    encoding.pretty = match pretty {
        Some(wanted) => wanted,
        None => encoding.pretty || is_read_by_people(headers),
    };
    Ok(encoding)
}

fn accepted_clause(headers: &HeaderMap, offer: Offer) -> Result<Encoding, NotAcceptable> {
    let mut texts = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .peekable();
    if texts.peek().is_none_or(|text| text.trim().is_empty()) {
        return Ok(Encoding::default());
    }
    let clauses = clauses(headers);
    let is_named = |clause: &Clause<'_>| clause.named_media_type().is_some();
    if offer.is_listed() && !clauses.iter().any(is_named) {
        return Err(NotAcceptable::of(true, offer));
    }
    let found = clauses.iter().find_map(|clause| clause.matched(offer));
    found.ok_or_else(|| NotAcceptable::of(false, offer))
}

/// The clauses of Accept, the best first: those of higher quality, then those that name more. Of
/// equal ones the client's order is kept.
fn clauses(headers: &HeaderMap) -> Vec<Clause<'_>> {
    let texts = headers.get_all(ACCEPT).iter();
    let texts = texts.filter_map(|value| value.to_str().ok());
    let mut clauses: Vec<Clause<'_>> = texts
        .flat_map(|text| text.split(','))
        .filter_map(Clause::parse)
        .collect();
    clauses.sort_by(|a, b| {
        let by_quality = b.quality.total_cmp(&a.quality);
        by_quality.then_with(|| a.wildcards().cmp(&b.wildcards()))
    });
    clauses
}

/// The media types that a client accepts, without their parameters, the best first.
pub fn accepted(headers: &HeaderMap) -> Vec<&str> {
    let clauses = clauses(headers).into_iter();
    clauses.map(|clause| clause.media_type).collect()
}

/// Whether a client takes JSON, in whatever form (API-38).
pub fn takes_json(headers: &HeaderMap) -> bool {
    let mut clauses = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .filter_map(Clause::parse)
        .peekable();
    let json = Some(MediaTypeRef::default());
    clauses.peek().is_none() || clauses.any(|clause| clause.named_media_type() == json)
}

impl NotAcceptable {
    fn of(is_unknown: bool, offer: Offer) -> NotAcceptable {
        let (names, streams) = (MediaTypeRef::names(), MediaTypeRef::streams());
        let offered = match offer {
            // Lists and watches are one route.
            Offer::Lists | Offer::Watch if is_unknown => names.chain(streams).collect(),
            Offer::Watch => streams.collect(),
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
struct Clause<'h> {
    media_type: &'h str,
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
            let (name, value) = (name.trim(), value.trim().trim_matches('"'));
            if name == "q" {
                clause.quality = value.parse().unwrap_or(0.0);
            } else {
                clause.parameters.push((name, value));
            }
        }
        Some(clause)
    }

    /// How much of the media type it leaves open.
    fn wildcards(&self) -> usize {
        self.media_type
            .split('/')
            .filter(|part| *part == "*")
            .count()
    }

    fn parameter(&self, name: &str) -> Option<&'h str> {
        self.parameters
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| *value)
    }

    /// The media type without its parameters.
    fn named_media_type(&self) -> Option<MediaTypeRef> {
        match self.media_type.to_ascii_lowercase().as_str() {
            "*/*" => Some(MediaTypeRef::default()),
            name => MediaTypeRef::named(name),
        }
    }

    /// The encoding for this clause, if it can be served.
    fn matched(&self, offer: Offer) -> Option<Encoding> {
        let is_any = self.media_type.eq_ignore_ascii_case("application/*");
        let media_type = match is_any {
            true => MediaTypeRef::default(),
            false => self.named_media_type()?,
        };
        if offer == Offer::Watch && !media_type.has_streams() {
            return None;
        }
        if self
            .parameter("stream")
            .is_some_and(|v| v != "watch" && !v.is_empty())
            || self
                .parameter("sv")
                .is_some_and(|v| v != "v1" && !v.is_empty())
        {
            return None;
        }
        let conversion = match self.parameter("as").filter(|kind| !kind.is_empty()) {
            None => None,
            Some(kind) => {
                let conversion = self.conversion(kind, offer)?;
                // Neither has a form in protobuf (API-67).
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
            (Offer::CreatedOnly, _, "Table", _) => None,
            (
                Offer::Objects | Offer::CreatedOnly | Offer::Lists | Offer::Watch,
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

/// The media type of a body in lower case and without parameters. It is empty when there is none
/// (API-56).
pub fn content_type(headers: &HeaderMap) -> String {
    headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.split(';').next())
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

/// The format of a body that holds an object or options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    /// JSON or YAML.
    Text(BodyFormat),
    /// Protobuf, in which all built-in kinds can be written (API-58).
    Protobuf,
}

/// The format of a body that holds an object or options. Without a content type it is JSON
/// (API-56).
pub fn body_form(headers: &HeaderMap) -> Option<BodyForm> {
    match content_type(headers).as_str() {
        "" | JSON => Some(BodyForm::Text(BodyFormat::Json)),
        YAML => Some(BodyForm::Text(BodyFormat::Yaml)),
        PROTOBUF => Some(BodyForm::Protobuf),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
