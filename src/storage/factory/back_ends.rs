//! The back ends: the stores that keep resources, by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use actors::engine::Engine;

use super::error::FactoryError;

/// The name of the back end of all resources without an override.
pub const BASE: &str = "base";

/// A store and its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackEnd {
    /// [`BASE`], or `override-0` and so on in the order of the configuration (OP-23).
    pub name: String,
    /// The URLs of its servers, sorted. Empty when the daemon keeps the store itself.
    pub servers: Vec<String>,
}

/// Returns all back ends. Each set of servers is one, in whatever order they are listed.
pub(super) fn back_ends<'s>(
    base: &[String],
    overrides: impl Iterator<Item = &'s [String]>,
) -> Vec<BackEnd> {
    let mut all = vec![BackEnd {
        name: BASE.to_owned(),
        servers: sorted(base),
    }];
    for servers in overrides.map(sorted) {
        if !all.iter().any(|known| known.servers == servers) {
            all.push(BackEnd {
                name: format!("override-{}", all.len() - 1),
                servers,
            });
        }
    }
    all
}

/// Returns the name of the back end with these servers, if it exists.
pub(super) fn name_of(all: &[BackEnd], servers: &[String]) -> Option<String> {
    let servers = sorted(servers);
    let known = all.iter().find(|known| known.servers == servers);
    known.map(|known| known.name.clone())
}

fn sorted(servers: &[String]) -> Vec<String> {
    let mut servers = servers.to_vec();
    servers.sort();
    servers.dedup();
    servers
}

/// The engine of each back end.
#[derive(Clone, Default)]
pub struct Engines(BTreeMap<String, Arc<dyn Engine>>);

impl Engines {
    /// One engine for everything.
    pub fn of(base: Arc<dyn Engine>) -> Engines {
        Engines(BTreeMap::from([(BASE.to_owned(), base)]))
    }

    /// Adds the engine of a back end.
    pub fn with(mut self, back_end: &str, engine: Arc<dyn Engine>) -> Engines {
        self.0.insert(back_end.to_owned(), engine);
        self
    }

    /// All engines with the names of their back ends, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<dyn Engine>)> {
        self.0.iter().map(|(name, engine)| (name.as_str(), engine))
    }

    pub(super) fn engine(&self, back_end: &str) -> Result<Arc<dyn Engine>, FactoryError> {
        let engine = self.0.get(back_end).cloned();
        engine.ok_or_else(|| FactoryError::NoEngine(back_end.to_owned()))
    }
}
