//! The certificates and credentials, and the reload of their files while the daemon runs.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;

use super::StartError;
use super::authorization_chain;
use super::token_issuers::TokenIssuers;
use super::webhooks;
use crate::api::user_info::UserInfo;
use crate::auth::service_accounts::{KeyReload, ServiceAccountConfig, ServiceAccountTokens};
use crate::auth::{
    Authenticator, Authenticators, BootstrapSecrets, BootstrapTokens, ClientCertificates,
    FrontProxy, ProxyHeaders, Reload, Revocations, StaticTokens, Token, TokenLookup,
    load_or_create_token, write_kubeconfig,
};
use crate::config::Config;
use crate::egress::EgressClient;
use crate::server::api_server::RotateToken;
use crate::storage::etcd::ClientTls;
use crate::transport::tls::{ProxyClient, ProxyIdentity, Tls};

/// The serving certificate; the admin, whose token is in the data directory; the users of the token
/// file; and the users of client certificates.
pub(super) struct Credentials {
    tls: Tls,
    proxy_client: ProxyClient,
    tokens: Arc<StaticTokens>,
    certificates: Arc<ClientCertificates>,
    front_proxy: Option<Arc<FrontProxy>>,
    bootstrap_tokens: Option<Arc<BootstrapTokens>>,
    token_issuers: TokenIssuers,
    service_accounts: Arc<ServiceAccountTokens>,
    authenticator: Arc<Authenticators>,
    etcd: Option<Arc<ClientTls>>,
    kubeconfig: PathBuf,
    data_dir: PathBuf,
    token_file: Option<PathBuf>,
    address: SocketAddr,
}

impl Credentials {
    /// Reads or creates certificates, credentials and the admin's kubeconfig for a server at this
    /// address. `users` are known in addition to those of files. The TLS towards etcd is read again
    /// with them. `client` asks issuers and webhooks.
    pub(super) fn load(
        config: &Config,
        address: SocketAddr,
        users: Vec<(Token, UserInfo)>,
        etcd: Option<Arc<ClientTls>>,
        client: &Arc<EgressClient>,
    ) -> Result<Credentials, StartError> {
        let tls = Tls::load_or_create(config)?;
        let proxy_client = ProxyClient::load_or_create(config)?;
        let data_dir = config.data_dir.as_path();
        let token = load_or_create_token(data_dir)?;
        let revocations = Revocations::default();
        let mut tokens = StaticTokens::new(token.clone(), users, revocations.clone());
        tokens = tokens.following(data_dir);
        let token_file = config.token_auth_file.is_set();
        let token_file = token_file.then(|| config.token_auth_file.as_path().to_owned());
        if let Some(file) = &token_file {
            tokens = tokens.with_file(file)?;
        }
        let tokens = Arc::new(tokens);
        let certificates = Arc::new(ClientCertificates::new(revocations.clone()));
        certificates.believe(&tls.client_authorities());
        let service_accounts = service_accounts(config);
        let service_accounts = ServiceAccountTokens::load(service_accounts, revocations.clone())?;
        let service_accounts = Arc::new(service_accounts);
        let headers = Arc::new(proxy_headers(config));
        let front_proxy = front_proxy(config, &headers, &tls, &revocations);
        let bootstrap_tokens = config.enable_bootstrap_token_auth.0;
        let bootstrap_tokens = bootstrap_tokens.then(Arc::<BootstrapTokens>::default);
        // The order of Kubernetes (AC-1).
        let proxy = front_proxy.clone().map(|one| one as Arc<dyn Authenticator>);
        let mut members: Vec<Arc<dyn Authenticator>> = proxy.into_iter().collect();
        members.extend([
            certificates.clone() as Arc<dyn Authenticator>,
            tokens.clone(),
        ]);
        members.push(service_accounts.clone());
        let token_issuers = TokenIssuers::start(config, &revocations, client)?;
        let look_ups = bootstrap_tokens.clone();
        let look_ups = look_ups.into_iter().map(|one| one as Arc<dyn TokenLookup>);
        let jwt = token_issuers.issuers.clone();
        let look_ups = look_ups.chain(jwt.map(|one| one as Arc<dyn TokenLookup>));
        let audiences = &service_accounts.config().audiences;
        let webhook = webhooks::of_tokens(config, client, audiences)?;
        let look_ups = look_ups.chain(webhook);
        let authenticator = Authenticators::new(members, revocations)
            .looking_up(look_ups.collect())
            .behind_proxies(headers)
            .serving_anonymous(authorization_chain::served(
                config,
                token_issuers.anonymous.clone(),
            ));
        Ok(Credentials {
            kubeconfig: write_kubeconfig(data_dir, address, &tls.trust_pem(), &token)?,
            tls,
            proxy_client,
            tokens,
            certificates,
            front_proxy,
            bootstrap_tokens,
            token_issuers,
            service_accounts,
            etcd,
            authenticator: Arc::new(authenticator),
            data_dir: data_dir.to_owned(),
            token_file,
            address,
        })
    }

    pub(super) fn authenticator(&self) -> Arc<Authenticators> {
        Arc::clone(&self.authenticator)
    }

    /// Returns the certificates that clients must trust, in PEM.
    pub(super) fn trust_pem(&self) -> String {
        self.tls.trust_pem()
    }

    /// Returns the client CAs, in PEM.
    pub(super) fn client_authorities_pem(&self) -> String {
        self.tls.client_authorities_pem()
    }

    /// Returns the authorities of front proxies, in PEM.
    pub(super) fn proxy_authorities_pem(&self) -> String {
        self.tls.proxy_authorities_pem()
    }

    /// Returns the certificate by which this server is a front proxy of others.
    pub(super) fn proxy_identity(&self) -> Option<Arc<ProxyIdentity>> {
        self.proxy_client.identity()
    }

    /// Sets where the Secrets of bootstrap tokens are read.
    pub(super) fn attach_secrets<S: BootstrapSecrets>(&self, secrets: &Arc<S>) {
        if let Some(tokens) = &self.bootstrap_tokens {
            tokens.attach(secrets.clone());
        }
    }

    /// Returns the task that follows the authentication configuration, if there is one.
    pub(super) fn follow_issuers(&self) -> Option<impl Future<Output = ()> + use<>> {
        self.token_issuers.follow()
    }

    pub(super) fn service_accounts(&self) -> &Arc<ServiceAccountTokens> {
        &self.service_accounts
    }

    /// Returns the TLS configuration for the next handshake.
    pub(super) fn server_config(&self) -> Arc<ArcSwap<ServerConfig>> {
        self.tls.server_config()
    }

    /// Returns the path of the admin's kubeconfig.
    pub(super) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the function that replaces the admin's token and writes the kubeconfig. It returns
    /// the number of watches that end.
    pub(super) fn rotation(credentials: &Arc<Credentials>) -> RotateToken {
        let credentials = Arc::clone(credentials);
        Arc::new(move || {
            let (token, watches_ended) = credentials.tokens.rotate_admin()?;
            tracing::info!(watches_ended, "the admin's token was replaced");
            let (data_dir, trust) = (&credentials.data_dir, credentials.tls.trust_pem());
            write_kubeconfig(data_dir, credentials.address, &trust, &token)?;
            Ok(watches_ended)
        })
    }

    /// Returns the files that may change while the daemon runs.
    pub(super) fn followed(&self) -> Vec<PathBuf> {
        let mut files = self.tls.followed();
        files.extend(self.proxy_client.followed());
        files.extend(self.token_file.clone());
        files.push(self.data_dir.join("admin.token"));
        files.extend(self.service_accounts.files());
        files.extend(self.etcd.iter().flat_map(|tls| tls.files().paths()));
        files
    }

    /// Reads the files again, and logs what has changed and which files are kept as they were.
    /// `because` is the reason for the log. It does blocking I/O.
    pub(super) fn reload(&self, because: &'static str) {
        self.reload_certificates(because);
        self.reload_tokens(because);
        self.reload_keys(because);
        self.reload_etcd(because);
    }

    fn reload_etcd(&self, because: &'static str) {
        let Some(tls) = &self.etcd else {
            return;
        };
        match tls.reload() {
            Err(error) => {
                tracing::error!(%error, because, "keeping the previous certificates towards etcd");
            }
            Ok(true) => {
                tracing::info!(
                    because,
                    "new connections to etcd use the reloaded certificates"
                );
            }
            Ok(false) => {}
        }
    }

    /// Reloads certificates and client CAs. Renews the daemon's own certificate when that is due.
    pub(super) fn reload_certificates(&self, because: &'static str) {
        match self.proxy_client.reload() {
            Err(error) => tracing::error!(
                %error,
                because,
                "keeping the previous certificate towards aggregated servers"
            ),
            Ok(true) => {
                tracing::info!(
                    because,
                    "the certificate towards aggregated servers was replaced"
                );
            }
            Ok(false) => {}
        }
        match self.tls.reload() {
            Err(error) => {
                tracing::error!(
                    %error,
                    because,
                    "the certificates were not read again; keeping the previous ones"
                );
            }
            Ok(reload) => {
                if reload.certificate {
                    tracing::info!(because, "the serving certificate was replaced");
                }
                if reload.client_authorities {
                    let watches_ended = self.certificates.believe(&self.tls.client_authorities());
                    tracing::info!(because, watches_ended, "the client CAs were reloaded");
                }
                if let Some(proxy) = self
                    .front_proxy
                    .as_ref()
                    .filter(|_| reload.proxy_authorities)
                {
                    let authorities = self.tls.proxy_authorities();
                    let watches_ended = proxy.believe(&authorities, reload.has_lost_proxies);
                    tracing::info!(
                        because,
                        watches_ended,
                        "the CAs of front proxies were reloaded"
                    );
                }
            }
        }
    }

    fn reload_keys(&self, because: &'static str) {
        match self.service_accounts.reload() {
            Err(error) => {
                tracing::error!(%error, because, "keeping the previous service account keys");
            }
            Ok(KeyReload {
                is_changed: true,
                watches,
            }) => {
                tracing::info!(
                    because,
                    watches_ended = watches,
                    "the service account keys were reloaded"
                );
            }
            Ok(_) => {}
        }
    }

    /// Reloads the token files. Also writes the kubeconfig with the current token and certificate,
    /// because an earlier write may have failed.
    fn reload_tokens(&self, because: &'static str) {
        let Reload {
            admin,
            token,
            users,
            watches,
        } = self.tokens.reload();
        let admin_token = match &admin {
            Ok(false) => "unchanged",
            Ok(true) => "replaced",
            Err(_) => "kept",
        };
        if let Err(error) = admin {
            tracing::error!(%error, because, "keeping the previous admin token");
        }
        let trust = self.tls.trust_pem();
        let written = write_kubeconfig(&self.data_dir, self.address, &trust, &token);
        if let Err(error) = written {
            tracing::error!(%error, because, "the admin's kubeconfig could not be written");
        }
        let users = users.unwrap_or_else(|error| {
            tracing::error!(%error, because, "keeping the previous users");
            None
        });
        tracing::info!(
            because,
            admin_token,
            users,
            watches_ended = watches,
            "the token files were read again"
        );
    }
}

/// Returns the names of the headers that front proxies set.
fn proxy_headers(config: &Config) -> ProxyHeaders {
    ProxyHeaders::new(
        &config.requestheader_username_headers.0,
        &config.requestheader_uid_headers.0,
        &config.requestheader_group_headers.0,
        &config.requestheader_extra_headers_prefix.0,
    )
}

/// Returns the authenticator of front proxies, if there are any (AC-10).
fn front_proxy(
    config: &Config,
    headers: &Arc<ProxyHeaders>,
    tls: &Tls,
    revocations: &Revocations,
) -> Option<Arc<FrontProxy>> {
    if !config.requestheader_client_ca_file.is_set() {
        return None;
    }
    let standard = [
        (
            "username-headers",
            &config.requestheader_username_headers,
            "X-Remote-User",
        ),
        (
            "group-headers",
            &config.requestheader_group_headers,
            "X-Remote-Group",
        ),
        (
            "extra-headers-prefix",
            &config.requestheader_extra_headers_prefix,
            "X-Remote-Extra-",
        ),
    ];
    for (name, list, standard) in standard {
        let is_standard = |text: &String| text.trim().eq_ignore_ascii_case(standard);
        // linear: a few names of headers, at the start.
        if !list.0.is_empty() && !list.0.iter().any(is_standard) {
            tracing::warn!(
                "--requestheader-{name} is set without specifying the standard {standard} header - \
                 API aggregation will not work"
            );
        }
    }
    let allowed = config.requestheader_allowed_names.0.iter();
    let allowed = allowed.map(|name| name.trim().to_owned()).collect();
    let proxy = FrontProxy::new(Arc::clone(headers), allowed, revocations.clone());
    proxy.believe(&tls.proxy_authorities(), false);
    Some(Arc::new(proxy))
}

/// Returns the configuration for issuing and verifying tokens of service accounts.
pub(super) fn service_accounts(config: &Config) -> ServiceAccountConfig {
    let issuers = config.issuers();
    let signing = &config.service_account_signing_key_file;
    let audiences = match config.api_audiences.0.is_empty() {
        true => issuers.clone(),
        false => config.api_audiences.0.clone(),
    };
    let key_files = config.service_account_key_file.0.iter();
    let most = config.service_account_max_token_expiration.0.as_secs();
    ServiceAccountConfig {
        issuers,
        audiences,
        key_files: key_files.map(PathBuf::from).collect(),
        signing_key_file: signing.is_set().then(|| signing.as_path().to_owned()),
        data_dir: config.data_dir.as_path().to_owned(),
        seconds_max: i64::try_from(most).unwrap_or(i64::MAX),
        extends: config.service_account_extend_token_expiration.0,
        looks_up: config.service_account_lookup.0,
    }
}
