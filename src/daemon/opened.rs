//! The steps of the start that may refuse it: settings, files, ports, stores.

use std::sync::Arc;

use actors::watchdog::{self, Watchdog};

use super::StartError;
use super::admission_configuration;
use super::authorization_chain;
use super::credentials::{self, Credentials};
use super::encryption;
use super::factory::{check_definitions, storage_factory, storage_warnings};
use super::sharing;
use super::stores::{self, OpenEngines};
use super::token_issuers;
use super::webhooks;
use crate::admission::configuration::PluginSettings;
use crate::api::user_info::UserInfo;
use crate::auth::service_accounts::check_keys;
use crate::auth::{Token, check_token_file};
use crate::clock::{self, OwnClock};
use crate::config::Config;
use crate::controllers::Sharing;
use crate::egress::EgressClient;
use crate::kubelet::Kubelets;
use crate::server::audit::Audit;
use crate::storage::embedded::disk::Directory;
use crate::storage::encryption::Encryption;
use crate::storage::factory::StorageFactory;
use crate::transport::listener::{PlainListener, SecureListener};
use crate::transport::tls::Tls;

/// Everything that is opened before the first part is started.
pub(super) struct Opened {
    pub(super) encryption: Encryption,
    pub(super) factory: StorageFactory,
    pub(super) sharing: Sharing,
    pub(super) listener: SecureListener,
    pub(super) metrics_listener: Option<PlainListener>,
    pub(super) directory: Option<Directory>,
    pub(super) watchdog: Watchdog,
    pub(super) stores: OpenEngines,
    pub(super) credentials: Arc<Credentials>,
    /// Asks all other servers, so that those with the same target share connections.
    pub(super) egress: Arc<EgressClient>,
    /// The way to kubelets.
    pub(super) kubelets: Kubelets,
    pub(super) audit: Option<Arc<Audit>>,
    pub(super) plugin_settings: PluginSettings,
    /// The clock that a test may move, if the daemon serves tests.
    pub(super) own_clock: Option<OwnClock>,
}

impl Opened {
    /// Opens all. `users` are known in addition to those of files. A daemon that serves tests gets
    /// a clock of its own.
    ///
    /// # Errors
    /// [`StartError`]. Nothing is left open.
    pub(super) fn open(
        config: &Config,
        users: Vec<(Token, UserInfo)>,
        for_tests: bool,
    ) -> Result<Opened, StartError> {
        // Before any other thread is started, because those inherit the clock.
        let own_clock = for_tests.then(clock::own);
        // Errors in files and settings are reported before any other message.
        let (encryption, factory) = understood(config)?;
        let admission = admission_configuration::read(config)?;
        let sharing = sharing::of(&factory)?;
        let listener = SecureListener::bind(config)?;
        let metrics_listener = bound_for_metrics(config)?;
        let directory = stores::hold_directory(config)?;
        warn(config, &factory);
        for warning in admission.warnings {
            tracing::warn!("{warning}");
        }
        let watchdog = Watchdog::start(watchdog::LIMIT).map_err(StartError::Threads)?;
        let stores = OpenEngines::open(config, &factory.back_ends(), &watchdog)?;
        let address = listener.local_address();
        let egress = Arc::<EgressClient>::default();
        let etcd = stores.tls.clone();
        let credentials = Credentials::load(config, address, users, etcd, &egress)?;
        Ok(Opened {
            encryption,
            factory,
            sharing,
            listener,
            metrics_listener,
            directory,
            watchdog,
            stores,
            credentials: Arc::new(credentials),
            kubelets: Kubelets::load(config, Arc::clone(&egress))?,
            egress,
            audit: Audit::open(config)?,
            plugin_settings: admission.settings,
            own_clock,
        })
    }
}

/// Checks the files that the settings name, as the start does, for a program that has something to
/// wait for before it.
///
/// # Errors
/// [`StartError`] names all faults.
pub fn check_files(config: &Config) -> Result<(), StartError> {
    understood(config).map(drop)
}

/// Loads the encryption and the storage factory. Reports all errors in files and settings at once
/// (SF-30).
fn understood(config: &Config) -> Result<(Encryption, StorageFactory), StartError> {
    check_definitions()?;
    let files = stores::unreadable_files(config).into_iter();
    let mut refusals: Vec<StartError> = files.map(StartError::Etcd).collect();
    refusals.extend(faulty_files(config));
    match (encryption::load(config), storage_factory(config)) {
        (Ok(encryption), Ok(factory)) if refusals.is_empty() => return Ok((encryption, factory)),
        (encryption, factory) => {
            refusals.extend(encryption.err().map(StartError::Encryption));
            refusals.extend(factory.err().map(StartError::Factory));
        }
    }
    match refusals.pop() {
        Some(only) if refusals.is_empty() => Err(only),
        last => {
            refusals.extend(last);
            Err(StartError::Several(refusals))
        }
    }
}

/// Returns the errors of files that are read only after the store is open. They are checked early,
/// because a refused start must not create a store.
fn faulty_files(config: &Config) -> impl Iterator<Item = StartError> + use<> {
    let users = &config.token_auth_file;
    let users = users.is_set().then(|| check_token_file(users.as_path()));
    let tls = Tls::check(config).err().map(StartError::Tls);
    let users = users.and_then(Result::err).map(StartError::Users);
    let audit = Audit::check(config).err().map(StartError::Audit);
    let keys = check_keys(&credentials::service_accounts(config)).err();
    let keys = keys.map(StartError::Keys);
    let issuers = token_issuers::check(config).err();
    let webhooks = webhooks::check(config);
    let authorizers = authorization_chain::check(config);
    let plugins = admission_configuration::check(config);
    let kubelets = Kubelets::check(config).err().map(StartError::Kubelets);
    let faults = [
        tls,
        users,
        audit,
        keys,
        issuers,
        webhooks,
        authorizers,
        plugins,
        kubelets,
    ];
    faults.into_iter().flatten()
}

/// Warns of settings that are valid but probably not intended.
fn warn(config: &Config, factory: &StorageFactory) {
    let metrics = config.metrics_bind_address.0;
    if let Some(address) = metrics.filter(|address| !address.ip().is_loopback()) {
        tracing::warn!(
            %address,
            "metrics-bind-address: every client that reaches this address can read the metrics, \
             without credentials and without encryption"
        );
    }
    if std::env::var_os("KUBE_API_VERSIONS").is_some() {
        tracing::warn!(
            "KUBE_API_VERSIONS has no effect, as in kube-apiserver; --runtime-config switches \
             versions on and off"
        );
    }
    for warning in storage_warnings(config, factory) {
        tracing::warn!("{warning}");
    }
}

/// Binds the port of the metrics page, unless it is disabled.
fn bound_for_metrics(config: &Config) -> Result<Option<PlainListener>, StartError> {
    let address = config.metrics_bind_address.0;
    let bind = |address| PlainListener::bind("metrics-bind-address", address);
    Ok(address.map(bind).transpose()?)
}
