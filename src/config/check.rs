//! What is wrong with settings that each can be read: those that don't go together, and URLs that
//! are none. All of it is told at once (SF-30).

use http::Uri;

use super::{Config, ConfigError, StorageBackend};

impl Config {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let mut refusals = self.apart();
        refusals.extend(self.urls());
        refusals.extend(self.ports());
        refusals.extend(self.numbers());
        ConfigError::all(refusals)
    }

    /// Settings that need others.
    fn apart(&self) -> Vec<ConfigError> {
        let mut refusals = Vec::new();
        if self.tls_cert_file.is_set() != self.tls_private_key_file.is_set() {
            let both = ConfigError::together("tls-cert-file", "tls-private-key-file");
            refusals.push(both);
        }
        if self.etcd_certfile.is_set() != self.etcd_keyfile.is_set() {
            refusals.push(ConfigError::together("etcd-certfile", "etcd-keyfile"));
        }
        if self.backend() == StorageBackend::Etcd3 && self.etcd_servers.0.is_empty() {
            let servers = ConfigError::missing("etcd-servers", "storage-backend=etcd3");
            refusals.push(servers);
        }
        let reloads = self.encryption_provider_config_automatic_reload.0;
        if reloads && !self.encryption_provider_config.is_set() {
            refusals.push(ConfigError::lacks(
                "encryption-provider-config-automatic-reload",
                "encryption-provider-config",
            ));
        }
        refusals
    }

    /// URLs of servers, each with the setting that names it.
    fn urls(&self) -> Vec<ConfigError> {
        let knows_authority = self.etcd_cafile.is_set();
        let is_used = self.backend() == StorageBackend::Etcd3;
        let base = self.etcd_servers.0.iter().filter(|_| is_used);
        let base = base.map(|url| ("etcd-servers", url));
        let overrides = self.etcd_servers_overrides.0.iter();
        let own = overrides.flat_map(|one| &one.servers);
        base.chain(own.map(|url| ("etcd-servers-overrides", url)))
            .filter_map(|(name, url)| {
                let why = fault_of(url, knows_authority)?;
                Some(ConfigError::of_setting(name, &format!("{url:?} {why}")))
            })
            .collect()
    }

    fn ports(&self) -> Option<ConfigError> {
        let metrics = self.metrics_bind_address.0?;
        let clash = metrics.port() != 0
            && metrics.port() == self.secure_port.0
            && metrics.ip() == self.bind_address;
        clash.then(|| ConfigError::clash("metrics-bind-address", "secure-port"))
    }

    fn numbers(&self) -> Vec<ConfigError> {
        let streams = self.http2_max_streams_per_connection as usize;
        let least = [
            ("max-connections", 1, self.max_connections.most()),
            ("http-threads", 0, self.http_threads),
            ("data-threads", 1, self.data_threads),
            ("http2-max-streams-per-connection", 1, streams),
        ];
        let wrong = least.into_iter().filter(|(_, least, value)| value < least);
        wrong
            .map(|(name, least, value)| ConfigError::too_small(name, value, least))
            .collect()
    }
}

/// Why a text is no URL of a server that could be trusted.
fn fault_of(url: &str, knows_authority: bool) -> Option<String> {
    let no_url = |why: &dyn std::fmt::Display| {
        Some(format!("is not a URL such as http://127.0.0.1:2379: {why}"))
    };
    let uri: Uri = match url.parse() {
        Ok(uri) => uri,
        Err(error) => return no_url(&error),
    };
    match uri.scheme_str() {
        Some("http" | "https") if uri.host().is_none_or(str::is_empty) => {
            no_url(&"it names no host")
        }
        Some("https") if !knows_authority => {
            Some("needs --etcd-cafile, the authority that signed its certificate".to_owned())
        }
        Some("http" | "https") => None,
        _ => no_url(&"it begins with neither http:// nor https://"),
    }
}
