//! Whether other daemons may work on the same namespaces. This depends only on where namespaces are
//! stored.

use super::StartError;
use crate::controllers::Sharing;
use crate::storage::factory::{FactoryError, GroupResource, StorageFactory};

/// Returns whether daemons share the namespaces, and so elect one by a Lease to work on them.
///
/// # Errors
/// [`StartError::NoAgreement`] if they share the namespaces but not the Lease.
pub(super) fn of(factory: &StorageFactory) -> Result<Sharing, StartError> {
    let is_shared = |group: &str, resource: &str| -> Result<bool, FactoryError> {
        let kept = factory.destination(&GroupResource::new(group, resource))?;
        let mut back_ends = factory.back_ends().into_iter();
        let back_end = back_ends.find(|one| one.name == kept.back_end);
        Ok(back_end.is_some_and(|one| !one.servers.is_empty()))
    };
    if !is_shared("", "namespaces")? {
        return Ok(Sharing::Alone);
    }
    // The configuration may disable Leases, which is an error here.
    match is_shared("coordination.k8s.io", "leases") {
        Ok(true) => Ok(Sharing::WithOthers {
            identity: identity(),
        }),
        Ok(false) | Err(_) => Err(StartError::NoAgreement),
    }
}

/// Returns a unique name for this daemon.
fn identity() -> String {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    format!("{host}_{}", uuid::Uuid::new_v4())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Settings};
    use crate::daemon::storage_factory;

    fn sharing(servers: &str, overrides: &str) -> Result<Sharing, StartError> {
        let settings = Settings {
            etcd_servers: (!servers.is_empty()).then(|| servers.parse().unwrap()),
            etcd_servers_overrides: Some(overrides.parse().unwrap()),
            ..Settings::default()
        };
        let config = Config::load(settings, None).unwrap();
        of(&storage_factory(&config).unwrap())
    }

    #[test]
    fn who_keeps_the_namespaces_and_leases_decides_who_works_on_them() {
        const LEASES: &str = "coordination.k8s.io/leases#http://b:1";
        for alone in ["", "/events#http://b:1", LEASES] {
            assert_eq!(sharing("", alone).unwrap(), Sharing::Alone, "{alone}");
        }
        let both = format!("/namespaces#http://b:1,{LEASES}");
        for (servers, overrides) in [
            ("http://a:1", ""),
            ("http://a:1", LEASES),
            ("", both.as_str()),
            ("", "/*#http://b:1,coordination.k8s.io/*#http://b:1"),
        ] {
            let sharing = sharing(servers, overrides).unwrap();
            assert!(matches!(sharing, Sharing::WithOthers { .. }), "{overrides}");
        }
        let refused = sharing("", "/namespaces#http://b:1").unwrap_err();
        assert!(refused.is_refusal());
        assert!(
            refused.to_string().contains("coordination.k8s.io/leases"),
            "{refused}"
        );
    }
}
