//! Webhooks that decide about requests and identify the users of tokens.

mod kubeconfig;

pub use kubeconfig::{KubeconfigError, Server};
