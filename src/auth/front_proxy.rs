//! Front proxies: servers that authenticate their clients themselves and name the users in headers
//! (AC-10 to AC-12).

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use rustls::pki_types::CertificateDer;
use sha2::{Digest as _, Sha256};

use super::access::{Access, Revocations};
use super::authenticator::{Authenticated, Authenticator, Credentials, Unauthorized};
use super::client_certificates::{Authorities, common_name};
use crate::api::text::go_text;
use crate::api::user_info::UserInfo;
use crate::clock;
use crate::x509::{PeerCertificates, Validity};

/// The headers that are usual for front proxies. No handler sees them, whatever is configured.
const USUAL: [&str; 3] = ["x-remote-user", "x-remote-uid", "x-remote-group"];
const USUAL_PREFIX: &str = "x-remote-extra-";

/// The most certificates whose check is remembered.
const REMEMBERED: usize = 1024;

/// The names of the headers that name users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyHeaders {
    users: Vec<HeaderName>,
    uids: Vec<HeaderName>,
    groups: Vec<HeaderName>,
    /// In lower case.
    extra_prefixes: Vec<String>,
}

impl ProxyHeaders {
    /// Takes the configured names. Those that no header can have are left out; the daemon has
    /// refused an operator's settings with any.
    pub fn new(
        users: &[String],
        uids: &[String],
        groups: &[String],
        extra_prefixes: &[String],
    ) -> ProxyHeaders {
        let names = |all: &[String]| -> Vec<HeaderName> {
            let names = all.iter();
            let names = names.map(|name| HeaderName::from_bytes(name.trim().as_bytes()));
            names.filter_map(Result::ok).collect()
        };
        let prefixes = extra_prefixes.iter();
        ProxyHeaders {
            users: names(users),
            uids: names(uids),
            groups: names(groups),
            extra_prefixes: prefixes
                .map(|prefix| prefix.trim().to_ascii_lowercase())
                .collect(),
        }
    }

    /// Returns the user that the headers name, or `None` without a name (AC-11).
    fn user(&self, headers: &HeaderMap) -> Option<UserInfo> {
        let text = |name: &HeaderName| {
            let value = headers.get(name)?;
            Some(go_text(value.as_bytes()).into_owned()).filter(|text| !text.is_empty())
        };
        let name = self.users.iter().find_map(text)?;
        let mut groups = Vec::new();
        for header in &self.groups {
            let values = headers.get_all(header).into_iter();
            let values = values.filter(|value| !value.is_empty());
            groups.extend(values.map(|value| go_text(value.as_bytes()).into_owned()));
        }
        let mut user = UserInfo::authenticated(name, groups);
        user.uid = self.uids.iter().find_map(text).unwrap_or_default();
        for (header, value) in headers {
            for prefix in &self.extra_prefixes {
                if let Some(key) = header.as_str().strip_prefix(prefix.as_str()) {
                    let value = go_text(value.as_bytes()).into_owned();
                    user.extra.entry(decoded(key)).or_default().push(value);
                }
            }
        }
        Some(user)
    }

    /// Removes the credentials and the headers of front proxies, so that no handler and no
    /// server that it asks sees them (AC-12).
    pub fn strip(&self, headers: &mut HeaderMap) {
        headers.remove(AUTHORIZATION);
        USUAL.iter().for_each(|name| {
            headers.remove(*name);
        });
        for name in self.users.iter().chain(&self.uids).chain(&self.groups) {
            headers.remove(name);
        }
        let is_extra = |name: &&HeaderName| {
            let name = name.as_str();
            let prefixes = self.extra_prefixes.iter().map(String::as_str);
            // linear: a few configured prefixes.
            prefixes
                .chain([USUAL_PREFIX])
                .any(|one| name.starts_with(one))
        };
        let extra: Vec<HeaderName> = headers.keys().filter(is_extra).cloned().collect();
        for name in extra {
            headers.remove(name);
        }
    }
}

/// Decodes `%XX`. A text with an invalid sequence stays as it is.
fn decoded(key: &str) -> String {
    let mut rest = key;
    while let Some((_, behind)) = rest.split_once('%') {
        let digits = behind.as_bytes().get(..2);
        if !digits.is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit)) {
            return key.to_owned();
        }
        rest = behind.get(2..).unwrap_or_default();
    }
    let bytes: Vec<u8> = percent_decode_str(key).collect();
    go_text(&bytes).into_owned()
}

type Digest = [u8; 32];

/// The result of checking a certificate, and the generation of authorities that it was checked
/// with.
type Checked = (u64, Result<Validity, Unauthorized>);

/// Identifies the users of requests that front proxies send.
pub struct FrontProxy {
    headers: Arc<ProxyHeaders>,
    /// The common names of proxies; if empty, any is allowed.
    allowed: Vec<String>,
    authorities: ArcSwap<Authorities>,
    checked: Mutex<HashMap<Digest, Checked>>,
    /// The access of all users of proxies.
    access: Mutex<Access>,
    revocations: Revocations,
}

impl FrontProxy {
    /// Creates an authenticator that trusts no authority yet. The common names of proxies are
    /// limited to `allowed`, unless that is empty.
    pub fn new(
        headers: Arc<ProxyHeaders>,
        allowed: Vec<String>,
        revocations: Revocations,
    ) -> FrontProxy {
        FrontProxy {
            headers,
            allowed,
            authorities: ArcSwap::from_pointee(Authorities::new(0, &[])),
            checked: Mutex::default(),
            access: Mutex::default(),
            revocations,
        }
    }

    /// Replaces the authorities of proxies. `has_lost` is whether one of them is gone: the watches
    /// that were opened through proxies end then. Returns their number.
    pub fn believe(&self, authorities: &[CertificateDer<'_>], has_lost: bool) -> usize {
        let mut access = self.access.lock();
        let generation = self.authorities.load().generation() + 1;
        let authorities = Authorities::new(generation, authorities);
        self.authorities.store(Arc::new(authorities));
        match has_lost {
            true => self.revocations.revoke(&std::mem::take(&mut *access)),
            false => 0,
        }
    }

    fn check(&self, peer: &PeerCertificates) -> Result<(), Unauthorized> {
        let now = clock::of_machine().as_second();
        let mut digest = Sha256::new();
        for certificate in peer.chain() {
            digest.update(certificate.len().to_le_bytes());
            digest.update(certificate);
        }
        let digest: Digest = digest.finalize().into();
        let authorities = self.authorities.load_full();
        let known = self.checked.lock().get(&digest).cloned();
        let is_current = |(generation, result): &Checked| {
            let holds = |valid: &Validity| (valid.0..=valid.1).contains(&now);
            *generation == authorities.generation() && result.as_ref().map_or(true, holds)
        };
        if let Some((_, result)) = known.filter(is_current) {
            return result.map(|_| ());
        }
        let result = self.verified(&authorities, peer, now);
        let mut checked = self.checked.lock();
        if checked.len() >= REMEMBERED {
            checked.clear();
        }
        checked.insert(digest, (authorities.generation(), result.clone()));
        result.map(|_| ())
    }

    fn verified(
        &self,
        authorities: &Authorities,
        peer: &PeerCertificates,
        now: i64,
    ) -> Result<Validity, Unauthorized> {
        let refused = |why: String| Unauthorized::FrontProxy(why);
        let valid = authorities.verify(peer.chain(), now);
        let valid = valid.map_err(|why| refused(why.to_string()))?;
        let own = peer.chain().first();
        let name = own.and_then(|own| common_name(own)).unwrap_or_default();
        match self.allowed.is_empty() || self.allowed.contains(&name) {
            true => Ok(valid),
            false => Err(refused(format!(
                "x509: subject with cn={} is not in the allowed list",
                name.escape_default()
            ))),
        }
    }
}

impl Authenticator for FrontProxy {
    fn authenticate(
        &self,
        credentials: &Credentials<'_>,
    ) -> Result<Option<Authenticated>, Unauthorized> {
        let (Some(peer), Some(headers)) = (credentials.certificates, credentials.headers) else {
            return Ok(None);
        };
        // The access is taken before the certificate is checked, so that one of an authority that
        // is removed meanwhile gets a revoked access.
        let access = self.access.lock().clone();
        self.check(peer)?;
        Ok(self.headers.user(headers).map(|user| Authenticated {
            user: Arc::new(user),
            access,
            ..Authenticated::default()
        }))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::super::access::WatchAccess;
    use super::super::client_certificates::testing::{authority, leaf, roots};
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn names() -> ProxyHeaders {
        ProxyHeaders::new(
            &texts(&["X-Remote-User", "X-Other-User"]),
            &texts(&["X-Remote-Uid"]),
            &texts(&["X-Remote-Group", "X-Other-Group"]),
            &texts(&["X-Remote-Extra-", "X-Own-"]),
        )
    }

    fn map(headers: &[(&'static str, &[u8])]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        map
    }

    fn asked(proxy: &FrontProxy, peer: &PeerCertificates) -> Result<Option<Access>, Unauthorized> {
        let headers = map(&[("x-remote-user", b"ada")]);
        let found = proxy.authenticate(&Credentials::of(&headers, Some(peer)))?;
        Ok(found.map(|known| {
            assert_eq!(known.user.name, "ada");
            known.access
        }))
    }

    #[test]
    fn headers_name_the_user_ac_11() {
        let user = names().user(&map(&[
            ("x-remote-user", b""),
            ("x-other-user", b"ada"),
            ("x-remote-uid", b"17"),
            ("x-remote-uid", b"18"),
            ("x-other-group", b"c"),
            ("x-remote-group", b"a"),
            ("x-remote-group", b""),
            ("x-remote-group", b"b"),
            ("x-remote-extra-scopes.example%2fone", b"1"),
            ("x-remote-extra-scopes.example%2fone", b"2"),
            ("x-own-100%", b"3"),
            ("x-remote-extra-empty", b""),
        ]));
        let user = user.unwrap();
        assert_eq!((&*user.name, &*user.uid), ("ada", "17"));
        assert_eq!(user.groups, ["a", "b", "c", "system:authenticated"]);
        let extra: Vec<_> = user.extra.iter().collect();
        let expected = [
            ("100%", texts(&["3"])),
            ("empty", texts(&[""])),
            ("scopes.example/one", texts(&["1", "2"])),
        ];
        let expected = expected.map(|(key, values)| (key.to_owned(), values));
        assert_eq!(
            extra,
            expected.iter().map(|(k, v)| (k, v)).collect::<Vec<_>>()
        );
        assert_eq!(names().user(&map(&[("x-remote-group", b"a")])), None);
        let anonymous = map(&[("x-remote-user", b"system:anonymous")]);
        assert_eq!(names().user(&anonymous).unwrap().groups, texts(&[]), "AC-6");
        let without_names = ProxyHeaders::default();
        assert_eq!(without_names.user(&map(&[("x-remote-user", b"ada")])), None);
    }

    #[test]
    fn a_key_is_decoded_only_if_all_of_it_can_be_ac_11() {
        for (key, expected) in [
            ("a%2fb", "a/b"),
            ("a%2fb%", "a%2fb%"),
            ("a%zz", "a%zz"),
            ("%25", "%"),
            ("", ""),
        ] {
            assert_eq!(decoded(key), expected, "{key}");
        }
    }

    #[test]
    fn no_handler_sees_what_names_users_ac_12() {
        let mut headers = map(&[
            ("authorization", b"Bearer a"),
            ("x-remote-user", b"a"),
            ("x-remote-uid", b"a"),
            ("x-remote-group", b"a"),
            ("x-remote-group", b"b"),
            ("x-remote-extra-a", b"a"),
            ("x-remote-extra-b", b"b"),
            ("x-own-a", b"a"),
            ("x-other-user", b"a"),
            ("x-other-group", b"a"),
            ("x-remote", b"kept"),
            ("accept", b"kept"),
        ]);
        names().strip(&mut headers);
        let mut left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["accept", "x-remote"]);
        let mut headers = map(&[("x-remote-user", b"a"), ("x-remote-extra-a", b"a")]);
        ProxyHeaders::default().strip(&mut headers);
        assert!(headers.is_empty());
    }

    #[test]
    fn only_certificates_of_the_authority_and_the_names_are_proxies_ac_10() {
        let (own, other) = (authority(), authority());
        let proxy = |allowed: &[&str]| {
            let headers = Arc::new(names());
            let proxy = FrontProxy::new(headers, texts(allowed), Revocations::default());
            proxy.believe(&roots(&[&own]), false);
            proxy
        };
        let ada = leaf(&own, |_| ());
        assert!(asked(&proxy(&[]), &ada).unwrap().is_some());
        assert!(asked(&proxy(&["bob", "ada"]), &ada).unwrap().is_some());
        let refused = asked(&proxy(&["bob"]), &ada).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("cn=ada is not in the allowed list")
        );
        for _ in 0..2 {
            let refused = asked(&proxy(&[]), &leaf(&other, |_| ()));
            assert!(matches!(refused, Err(Unauthorized::FrontProxy(_))));
        }
        let headers = map(&[("x-remote-user", b"ada")]);
        let without = proxy(&[]).authenticate(&Credentials::of(&headers, None));
        assert!(without.unwrap().is_none(), "headers alone are nothing");
    }

    #[test]
    fn who_came_through_a_proxy_of_a_lost_authority_loses_watches() {
        let (own, other) = (authority(), authority());
        let proxy = FrontProxy::new(Arc::new(names()), Vec::new(), Revocations::default());
        proxy.believe(&roots(&[&own]), false);
        let peer = leaf(&own, |_| ());
        let watch = WatchAccess::new(asked(&proxy, &peer).unwrap().unwrap());
        assert_eq!(proxy.believe(&roots(&[&own, &other]), false), 0);
        assert!(asked(&proxy, &peer).is_ok() && !watch.access().is_revoked());
        assert_eq!(proxy.believe(&roots(&[&other]), true), 1);
        assert!(asked(&proxy, &peer).is_err() && watch.access().is_revoked());
    }
}
