//! The configured encryption at rest.

use actors::supervisor::ActorSystem;
use actors::tasks;

use crate::config::Config;
use crate::server::health::Check;
use crate::storage::encryption::{Encryption, EncryptionError, POLL_PERIOD, follow as follow_file};
use crate::storage::factory::{StorageFactory, StoragePlan};
use crate::storage::rewrite::{Rewriter, RewrittenStores};

/// Loads the transformers of the encryption configuration.
pub(super) fn load(config: &Config) -> Result<Encryption, EncryptionError> {
    let file = &config.encryption_provider_config;
    match file.is_set() {
        true => Encryption::load(file.as_path()),
        false => Ok(Encryption::none()),
    }
}

/// Follows changes of the file, if automatic reload is on (EN-17).
pub(super) fn follow(
    config: &Config,
    encryption: &Encryption,
) -> Option<actix_rt::task::JoinHandle<()>> {
    let wanted = config.encryption_provider_config_automatic_reload.0;
    wanted.then(|| tasks::spawn_local(follow_file(encryption.clone(), POLL_PERIOD)))
}

/// Reloads the file now and logs the result.
pub(super) async fn reload(encryption: &Encryption) {
    let looking = encryption.clone();
    match tasks::spawn_blocking(move || looking.reload()).await {
        Ok(Ok(reload)) => tracing::info!("SIGHUP: {reload}"),
        Ok(Err(error)) => tracing::error!(
            %error,
            "SIGHUP: the encryption configuration was not reloaded; keeping the previous one"
        ),
        Err(error) => tracing::error!(%error, "SIGHUP: the reload failed"),
    }
}

/// Returns the health check that Kubernetes has for all key services. It exists whenever a reload
/// might add one (EN-18), though none can be configured yet.
pub(super) fn check(config: &Config) -> Option<Check> {
    let wanted = config.encryption_provider_config_automatic_reload.0;
    wanted.then(|| Check::not_of_liveness("kms-providers", || Ok(())))
}

/// Returns the stores of these plans, for a rewrite with the current keys.
pub(super) fn rewritten_stores(
    plans: &[StoragePlan],
    actor_system: &ActorSystem,
) -> RewrittenStores {
    let stores = RewrittenStores::default();
    for plan in plans {
        stores.add(plan.rewritten(actor_system));
    }
    stores
}

/// Returns the rewriter of these stores. It can compact the history of back ends that are not etcd,
/// because only the daemon keeps that.
pub(super) fn rewriter(
    encryption: &Encryption,
    stores: &RewrittenStores,
    actor_system: &ActorSystem,
    factory: &StorageFactory,
) -> Rewriter {
    let back_ends = factory.back_ends();
    let is_own = |name: &str| {
        let mut own = back_ends.iter().filter(|one| one.servers.is_empty());
        own.any(|one| one.name == name)
    };
    let compactors = actor_system.compactors().iter();
    let compactors = compactors.filter(|(name, _)| is_own(name)).cloned();
    Rewriter::new(encryption.clone(), stores.clone(), compactors.collect())
}
