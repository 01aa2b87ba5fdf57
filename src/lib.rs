//! Taffrail: a storage daemon that speaks the Kubernetes API.

pub mod admission;
pub mod api;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod registry;
pub mod server;
pub mod shutdown;
pub mod storage;
pub mod telemetry;
pub mod upkeep;
