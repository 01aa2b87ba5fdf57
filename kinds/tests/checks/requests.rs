//! Arbitrary parameters and options.

use std::time::Duration;

use api::continuation::Continuation;
use api::decode::BodyFormat;
use api::options::{
    DeleteOptions, ListOptions, Query, WriteOptions, WriteVerb, field_manager, request_timeout,
};
use api::protobuf::{Texts, to_json};
use api::request_info::RequestInfo;
use api::selector::Selection;
use http::Method;
use kinds::types::TYPES;

use super::{halves, row};

/// Checks a byte that selects the kind, a label selector, a zero byte and a field selector.
pub fn selectors(data: &[u8]) {
    let Some((byte, rest)) = data.split_first() else {
        return;
    };
    let Some((labels, fields)) = halves(rest) else {
        return;
    };
    let (Ok(labels), Ok(fields)) = (std::str::from_utf8(labels), std::str::from_utf8(fields))
    else {
        return;
    };
    let Ok(selection) = Selection::parse(labels, fields, row(*byte)) else {
        return;
    };
    let again = Selection::parse(labels, fields, row(*byte));
    assert_eq!(again.as_ref().ok(), Some(&selection));
    let name = selection.exact_name().map(str::to_owned);
    let named = selection.clone().with_name("a");
    assert!(selection.is_empty() <= named.is_ok());
    if let (Ok(named), None) = (named, name) {
        assert_eq!(named.exact_name(), Some("a"));
    }
}

/// Checks a byte that selects the method, and a path. A valid path means the same when all of it is
/// escaped, and none of its parts spans several segments.
pub fn path(data: &[u8]) {
    const METHODS: [Method; 6] = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ];
    let Some((byte, rest)) = data.split_first() else {
        return;
    };
    let Ok(raw) = std::str::from_utf8(rest) else {
        return;
    };
    let method = &METHODS[usize::from(*byte) % METHODS.len()];
    let is_watch = *byte >= 128;
    let Ok(info) = RequestInfo::parse(method, raw, is_watch, raw) else {
        return;
    };
    let named = [&info.group, &info.version, &info.namespace, &info.resource];
    for part in named.into_iter().chain([&info.name, &info.subresource]) {
        assert!(!part.contains('/'), "{part:?} of {raw:?}");
    }
    assert!(info.is_resource || info.resource.is_empty(), "{raw:?}");
    assert!(!info.is_named || !info.name.is_empty(), "{raw:?}");
    let escaped: String = info
        .path
        .bytes()
        .map(|byte| match byte {
            b'/' => "/".to_owned(),
            _ => format!("%{byte:02X}"),
        })
        .collect();
    let again = RequestInfo::parse(method, &escaped, is_watch, raw);
    assert_eq!(again, Ok(info), "{raw:?}");
}

/// Checks a query string with the options of all verbs.
pub fn query(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let query = Query::parse(text);
    if let Ok(mut options) = ListOptions::parse(&query) {
        let _ = options.validate_list();
        for has_watch_list in [true, false] {
            let _ = options.validate_watch(has_watch_list);
        }
        options.default_watch();
    }
    for verb in [WriteVerb::Create, WriteVerb::Update, WriteVerb::Patch] {
        let _ = WriteOptions::parse(&query, verb);
    }
    assert!(field_manager(&query, text).len() <= 128 || query.first("fieldManager").is_some());
    if let Ok(Some(timeout)) = request_timeout(&query, Duration::from_secs(60)) {
        assert!(timeout <= Duration::from_secs(60));
    }
    let _ = DeleteOptions::parse(&query, &[], BodyFormat::Json);
}

/// Checks a continue token. A decoded one is encoded to a token that decodes to the same.
pub fn token(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(read) = Continuation::decode(text) {
        assert_eq!(Continuation::decode(&read.encode()).as_ref(), Ok(&read));
    }
}

/// Checks a byte that selects the format, and delete options.
pub fn delete_options(data: &[u8]) {
    let Some((byte, body)) = data.split_first() else {
        return;
    };
    let format = match byte % 3 {
        1 => BodyFormat::Yaml,
        _ => BodyFormat::Json,
    };
    let text = match byte % 3 {
        2 => to_json(body, "v1", "DeleteOptions", &TYPES, Texts::Strict),
        _ => Ok(body.to_vec()),
    };
    let Ok(body) = text.as_deref() else {
        return;
    };
    let query = Query::parse("");
    let read = DeleteOptions::parse(&query, body, format);
    assert_eq!(
        read.is_ok(),
        DeleteOptions::parse(&query, body, format).is_ok()
    );
}
