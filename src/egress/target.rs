//! The servers that requests are sent to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::Uri;
use http::header::HeaderValue;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::services::authority;

/// The certificates by which a server is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roots {
    /// Certificates in PEM. Each is trusted as an authority and as the certificate of the server.
    Bundle(Vec<u8>),
    /// The authorities that the machine trusts.
    System,
    /// Every certificate is accepted (`insecureSkipTLSVerify`).
    Anyone,
}

/// The certificate and key by which this client authenticates, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate, then those of its authorities.
    pub certificate: Vec<u8>,
    /// The private key.
    pub key: Zeroizing<Vec<u8>>,
}

/// The content of the header Authorization.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A bearer token.
    Bearer(Zeroizing<String>),
    /// A name and a password.
    Basic(String, Zeroizing<String>),
}

/// The versions of HTTP that a server may choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpPolicy {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 if the server offers it in the TLS handshake, else HTTP/1.1.
    Http1AndHttp2,
}

/// Whether redirects are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirects {
    /// An answer 3xx is an answer like others.
    Refuse,
    /// Ten at most, as Go does (HK-41).
    Follow,
}

/// Where the connection goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// To the host and port of the URL.
    Url,
    /// To this `host:port`, which a [`super::ServiceResolver`] has found.
    At(String),
}

/// The addresses that a server may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// Any.
    All,
    /// Those of other machines: no loopback, link-local, multicast and unspecified addresses.
    /// A user who chooses the address must not reach services that listen only on this machine, nor
    /// the metadata service of a cloud.
    Others,
}

impl Peers {
    /// Whether a server at this address may be asked.
    pub fn include(self, address: IpAddr) -> bool {
        let address = embedded(address);
        let is_of_link = match address {
            IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        let is_special = address.is_loopback() || address.is_unspecified();
        self == Peers::All || !(is_special || address.is_multicast() || is_of_link)
    }
}

/// Returns the IPv4 address that an address of IPv6 stands for: mapped, compatible, or with the
/// well-known prefix of NAT64. Others are returned as they are.
fn embedded(address: IpAddr) -> IpAddr {
    let IpAddr::V6(six) = address.to_canonical() else {
        return address.to_canonical();
    };
    match six.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0, 0, high, low] if high > 0 => {
            let bits = u32::from(high) << 16 | u32::from(low);
            Ipv4Addr::from(bits).into()
        }
        _ => address,
    }
}

/// The settings of a [`Target`].
#[derive(Clone)]
pub struct TargetSettings {
    /// Scheme, host and port, such as `https://a.ns.svc:443`. A path is not used.
    pub url: String,
    /// How the server is trusted.
    pub roots: Roots,
    /// This client's certificate, if the server wants one.
    pub identity: Option<Identity>,
    /// The header Authorization.
    pub credentials: Option<Credentials>,
    /// The name in the server's certificate, if it is not the URL's host.
    pub server_name: Option<String>,
    /// The versions of HTTP.
    pub http: HttpPolicy,
    /// Whether redirects are followed.
    pub redirects: Redirects,
    /// Where the connection goes.
    pub address: Address,
    /// The addresses that the connection may go to.
    pub peers: Peers,
    /// The most time for a connection, with its TLS handshake. Otherwise 30 s, and 10 s more for
    /// the handshake.
    pub connect_timeout: Option<Duration>,
}

impl TargetSettings {
    /// The settings for a URL with nothing but roots: HTTP/1.1, no credentials, no redirects.
    pub fn new(url: impl Into<String>, roots: Roots) -> TargetSettings {
        TargetSettings {
            url: url.into(),
            roots,
            identity: None,
            credentials: None,
            server_name: None,
            http: HttpPolicy::Http1,
            redirects: Redirects::Refuse,
            address: Address::Url,
            peers: Peers::All,
            connect_timeout: None,
        }
    }
}

/// The URL of a target is not that of a server, or its credentials cannot be a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTarget {
    /// Not `http` or `https` with a host.
    #[error("the URL must have the scheme http or https and a host, and no user")]
    Url,
    /// The token or password has characters that a header may not have.
    #[error("the credentials have characters that a header may not have")]
    Credentials,
}

/// A server with everything that a connection to it needs. Equal ones share connections.
#[derive(Clone)]
pub struct Target {
    settings: Arc<TargetSettings>,
    authorization: Option<HeaderValue>,
    pub(super) is_tls: bool,
    /// Without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// As it appears in the header Host and in texts.
    pub(super) authority: String,
    /// Distinguishes pools.
    pub(super) key: [u8; 32],
}

impl fmt::Debug for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Target({})", self.origin())
    }
}

impl Target {
    /// Checks settings.
    ///
    /// # Errors
    /// [`InvalidTarget`].
    pub fn new(settings: TargetSettings) -> Result<Target, InvalidTarget> {
        let uri: Uri = settings.url.parse().map_err(|_| InvalidTarget::Url)?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(InvalidTarget::Url),
        };
        let authority = uri.authority().ok_or(InvalidTarget::Url)?.as_str();
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || authority.contains('@') {
            return Err(InvalidTarget::Url);
        }
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let authorization = settings.credentials.as_ref().map(header).transpose()?;
        let mut target = Target {
            is_tls,
            host: host.to_ascii_lowercase(),
            port,
            authority: authority.to_owned(),
            authorization,
            settings: Arc::new(settings),
            key: [0; 32],
        };
        target.key = target.key();
        Ok(target)
    }

    /// Whether it is the same server by name: only such ones get this target's credentials.
    pub(super) fn is_at(&self, other: &Target) -> bool {
        self.is_tls == other.is_tls && self.host == other.host && self.port == other.port
    }

    /// Another server that this one has redirected to. It gets no credentials.
    pub(super) fn elsewhere(&self, origin: String) -> Result<Target, InvalidTarget> {
        Target::new(TargetSettings {
            http: self.settings.http,
            redirects: self.settings.redirects,
            peers: self.settings.peers,
            ..TargetSettings::new(origin, self.settings.roots.clone())
        })
    }

    pub(super) fn settings(&self) -> &TargetSettings {
        &self.settings
    }

    pub(super) fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }

    pub(super) fn origin(&self) -> String {
        format!("{}://{}", self.scheme(), self.authority)
    }

    /// The scheme of its URL.
    pub(super) fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    /// The same server, asked over HTTP/1.1, which alone has upgrades.
    pub(super) fn without_http2(&self) -> Target {
        if self.settings.http == HttpPolicy::Http1 {
            return self.clone();
        }
        let mut target = self.clone();
        target.settings = Arc::new(TargetSettings {
            http: HttpPolicy::Http1,
            ..(*self.settings).clone()
        });
        target.key = target.key();
        target
    }

    /// The name that the server's certificate must have.
    pub(super) fn server_name(&self) -> &str {
        self.settings.server_name.as_deref().unwrap_or(&self.host)
    }

    /// The host and port to connect to.
    pub(super) fn dialed(&self) -> String {
        match &self.settings.address {
            Address::At(address) => address.clone(),
            Address::Url => authority(&self.host, self.port),
        }
    }

    /// A digest of everything that distinguishes connections. Credentials in a header do not.
    fn key(&self) -> [u8; 32] {
        let settings = &self.settings;
        let (kind, bundle): (u8, &[u8]) = match &settings.roots {
            Roots::Bundle(bundle) => (0, bundle),
            Roots::System => (1, &[]),
            Roots::Anyone => (2, &[]),
        };
        let (certificate, key): (&[u8], &[u8]) = match &settings.identity {
            Some(identity) => (&identity.certificate, &identity.key),
            None => (&[], &[]),
        };
        let is_http2 = settings.http == HttpPolicy::Http1AndHttp2;
        let is_checked = settings.peers == Peers::Others;
        let (origin, dialed) = (self.origin(), self.dialed());
        let mut digest = Sha256::new();
        for part in [
            &[self.is_tls.into(), kind, is_http2.into(), is_checked.into()],
            origin.as_bytes(),
            dialed.as_bytes(),
            self.server_name().as_bytes(),
            bundle,
            certificate,
            key,
        ] {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
        digest.finalize().into()
    }
}

fn header(credentials: &Credentials) -> Result<HeaderValue, InvalidTarget> {
    let text = Zeroizing::new(match credentials {
        Credentials::Bearer(token) => format!("Bearer {}", token.as_str()),
        Credentials::Basic(name, password) => {
            let both = Zeroizing::new(format!("{name}:{}", password.as_str()));
            format!("Basic {}", BASE64_STANDARD.encode(both.as_bytes()))
        }
    });
    let mut value = HeaderValue::try_from(text.as_str()).map_err(|_| InvalidTarget::Credentials)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_and_its_link_are_no_others_cn_71_cn_77() {
        for address in [
            "127.0.0.1",
            "0.0.0.0",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
        ] {
            let parsed = address.parse().unwrap();
            assert!(!Peers::Others.include(parsed), "{address}");
            assert!(Peers::All.include(parsed), "{address}");
        }
        for address in [
            "10.0.0.1",
            "192.0.2.1",
            "fd00::1",
            "64:ff9b::c000:201",
            "2001:db8::1",
        ] {
            assert!(Peers::Others.include(address.parse().unwrap()), "{address}");
        }
    }
}
