//! The configured encryption at rest.

use actors::supervisor::ActorSystem;

use crate::config::Config;
use crate::server::health::Check;
use crate::storage::encryption::{Encryption, EncryptionError, POLL_PERIOD, follow as follow_file};
use crate::storage::factory::{StorageFactory, StoragePlan};
use crate::storage::rewrite::{Rewriter, RewrittenStores};

/// The transformers of a configuration.
pub(super) fn load(config: &Config) -> Result<Encryption, EncryptionError> {
    let file = &config.encryption_provider_config;
    match file.is_set() {
        true => Encryption::load(file.as_path()),
        false => Ok(Encryption::none()),
    }
}

/// Follows changes of the file, if that is configured (EN-17).
pub(super) fn follow(
    config: &Config,
    encryption: &Encryption,
) -> Option<actix_rt::task::JoinHandle<()>> {
    let wanted = config.encryption_provider_config_automatic_reload.0;
    wanted.then(|| actix_rt::spawn(follow_file(encryption.clone(), POLL_PERIOD)))
}

/// Reloads the file now and logs the result.
pub(super) async fn reload(encryption: &Encryption) {
    let looking = encryption.clone();
    match actix_rt::task::spawn_blocking(move || looking.reload()).await {
        Ok(Ok(reload)) => tracing::info!("SIGHUP: {reload}"),
        Ok(Err(error)) => tracing::error!(
            %error,
            "SIGHUP: the encryption configuration was not reloaded; keeping the previous one"
        ),
        Err(error) => tracing::error!(%error, "SIGHUP: the reload was not finished"),
    }
}

/// Kubernetes' common check for all key services. It exists whenever a reload might add a key
/// service (EN-18), though none can be configured yet.
pub(super) fn check(config: &Config) -> Option<Check> {
    let wanted = config.encryption_provider_config_automatic_reload.0;
    wanted.then(|| Check::not_of_liveness("kms-providers", || Ok(())))
}

/// The stores of these plans, for a rewrite.
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

/// The rewriter of these stores. Of the back ends without servers, the daemon itself keeps history
/// and can purge it.
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
