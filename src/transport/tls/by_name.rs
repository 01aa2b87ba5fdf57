//! The choice of a certificate by the name that a client asks for.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// The certificates by their names, which may begin with `*`.
#[derive(Debug)]
pub(super) struct ByName {
    usual: Arc<CertifiedKey>,
    named: HashMap<String, Arc<CertifiedKey>>,
}

impl ByName {
    /// Returns the choice for a usual certificate and others with names. The first one of a name
    /// wins.
    pub(super) fn new(
        usual: CertifiedKey,
        others: impl IntoIterator<Item = (Vec<String>, CertifiedKey)>,
    ) -> ByName {
        let mut named = HashMap::new();
        for (names, certificate) in others {
            let certificate = Arc::new(certificate);
            for name in names {
                named
                    .entry(name)
                    .or_insert_with(|| Arc::clone(&certificate));
            }
        }
        ByName {
            usual: Arc::new(usual),
            named,
        }
    }

    fn of(&self, name: &str) -> Arc<CertifiedKey> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let found = self.named.get(&name).or_else(|| {
            // Labels become wildcards one after the other, from the left.
            let labels: Vec<&str> = name.split('.').collect();
            let patterns = (1..=labels.len()).map(|count| {
                let (replaced, rest) = labels.split_at(count);
                let stars = replaced.iter().map(|_| "*");
                stars
                    .chain(rest.iter().copied())
                    .collect::<Vec<_>>()
                    .join(".")
            });
            patterns
                .filter_map(|pattern| self.named.get(&pattern))
                .next()
        });
        Arc::clone(found.unwrap_or(&self.usual))
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(match hello.server_name() {
            Some(name) if !self.named.is_empty() => self.of(name),
            _ => Arc::clone(&self.usual),
        })
    }
}
