//! Real servers for tests.
//!
//! This folder owns the start and stop of etcds that `tests/run.sh` fetches, free ports and
//! proxies. Suites share it with `#[path = "../servers/mod.rs"] mod servers;`. It must not know the
//! daemon.
#![allow(dead_code)]

pub mod etcd;
pub mod ports;
pub mod proxy;
