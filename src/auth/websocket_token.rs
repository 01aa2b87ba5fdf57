//! Tokens of WebSocket clients that can set no header: one of their subprotocols (AC-1, CN-60).

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue, SEC_WEBSOCKET_PROTOCOL, UPGRADE};

/// The subprotocol, before the token in base64.
const PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

/// A token that nobody has, for one that cannot be read.
const NOBODYS: &str = "Bearer -";

/// The same headers, with the token of a subprotocol in the header Authorization.
pub fn placed(headers: &HeaderMap) -> Cow<'_, HeaderMap> {
    moved(headers).map_or(Cow::Borrowed(headers), Cow::Owned)
}

/// Puts the token of a subprotocol into the header Authorization.
pub fn place(headers: &mut HeaderMap) {
    if let Some(moved) = moved(headers) {
        *headers = moved;
    }
}

/// Moves the token of a subprotocol to the header Authorization, so that nothing else sees it
/// there. A header that the client has sent counts before it. Returns `None` without such a
/// token. The client must name another protocol, too, which the server can choose.
fn moved(headers: &HeaderMap) -> Option<HeaderMap> {
    let upgrade = headers.get(UPGRADE)?.as_bytes();
    if !upgrade.eq_ignore_ascii_case(b"websocket") {
        return None;
    }
    let lines = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    let all = lines.flat_map(|line| line.split(',')).map(str::trim);
    let (tokens, others): (Vec<&str>, Vec<&str>) = all.partition(|one| one.starts_with(PREFIX));
    let first = tokens.first()?.strip_prefix(PREFIX)?;
    let token = URL_SAFE_NO_PAD.decode(first).ok();
    let token = token.filter(|_| tokens.len() == 1 && !others.is_empty());
    let token = token.and_then(|token| HeaderValue::try_from([b"Bearer ", &*token].concat()).ok());
    let mut moved = headers.clone();
    match HeaderValue::try_from(others.join(", ")) {
        Ok(left) if !others.is_empty() => moved.insert(SEC_WEBSOCKET_PROTOCOL, left),
        _ => moved.remove(SEC_WEBSOCKET_PROTOCOL),
    };
    if !moved.contains_key(AUTHORIZATION) {
        let mut token = token.unwrap_or(HeaderValue::from_static(NOBODYS));
        token.set_sensitive(true);
        moved.insert(AUTHORIZATION, token);
    }
    Some(moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subprotocol_has_the_token_cn_60() {
        let read = |upgrade: &'static str, protocols: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(UPGRADE, HeaderValue::from_static(upgrade));
            let protocols = HeaderValue::try_from(protocols).unwrap();
            headers.insert(SEC_WEBSOCKET_PROTOCOL, protocols);
            let moved = moved(&headers)?;
            let text = |name| {
                moved
                    .get(name)
                    .map(|value| value.to_str().unwrap().to_owned())
            };
            Some((text(AUTHORIZATION).unwrap(), text(SEC_WEBSOCKET_PROTOCOL)))
        };
        let secret = URL_SAFE_NO_PAD.encode("secret");
        let own = format!("{PREFIX}{secret}");
        let (found, left) = read("WebSocket", &format!("{own}, v4.channel.k8s.io, x")).unwrap();
        assert_eq!(found, "Bearer secret");
        assert_eq!(left.unwrap(), "v4.channel.k8s.io, x");
        for refused in [
            own.clone(),
            format!("{own}, {own}, x"),
            format!("{PREFIX}%, x"),
        ] {
            assert_eq!(read("websocket", &refused).unwrap().0, NOBODYS, "{refused}");
        }
        assert_eq!(read("SPDY/3.1", &own), None);
        assert_eq!(read("websocket", "x"), None);
    }
}
