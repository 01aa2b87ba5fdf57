//! Functions of URLs.

use std::sync::Arc;

use super::super::values::value::{BuiltMap, Map, Opaque, Outcome, Value, error, no_overload};
use super::super::values::work_limit::Work;
use crate::text::url::{Url, unescaped};

/// Returns the parameters of a query. Invalid ones are left out.
fn query<'v>(text: &str, work: &Work) -> Outcome<Value<'v>> {
    work.make_bytes(2 * text.len())?;
    let mut all: Vec<(String, Vec<Value<'v>>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for part in text
        .split('&')
        .filter(|part| !part.is_empty() && !part.contains(';'))
    {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let read = |text: &str| unescaped(&text.replace('+', " "), false).ok();
        let (Some(name), Some(value)) = (read(name), read(value)) else {
            continue;
        };
        let place = *places.entry(name.clone()).or_insert_with(|| {
            all.push((name, Vec::new()));
            all.len() - 1
        });
        if let Some((_, values)) = all.get_mut(place) {
            values.push(Value::text(value));
        }
    }
    let mut map = BuiltMap::default();
    for (name, values) in all {
        map.insert(Value::text(name), Value::list(values));
    }
    Ok(Value::Map(Map::Built(Arc::new(map))))
}

/// Returns the result of a function of URLs.
pub(in super::super) fn call<'v>(
    name: &'static str,
    arguments: &[Value<'v>],
    work: &Work,
) -> Outcome<Value<'v>> {
    let url = match (name, arguments) {
        ("isURL", [Value::String(text)]) => {
            let read = Url::read_request(text).and_then(|_| Url::read_whole(text));
            return Ok(Value::Bool(read.is_ok()));
        }
        ("url", [Value::String(text)]) => {
            let read = Url::read_request(text).and_then(|_| Url::read_whole(text));
            return match read {
                Ok(url) => Ok(Value::Opaque(Opaque::Url(Arc::new(url)))),
                Err(why) => error(format!(
                    "URL parse error during conversion from string: {why}"
                )),
            };
        }
        (_, [Value::Opaque(Opaque::Url(url))]) => url,
        _ => return no_overload(),
    };
    let text = |text: &str| Ok(Value::text(text.to_owned()));
    match name {
        "getScheme" => text(&url.scheme),
        "getHost" => text(&url.host),
        "getHostname" => text(url.host_and_port().0),
        "getPort" => text(url.host_and_port().1),
        "getEscapedPath" => text(&url.path),
        "getQuery" => query(&url.query, work),
        _ => no_overload(),
    }
}
