//! Real servers for tests, as `tests/run.sh` fetches them; shared by the suites that need them
//! (`#[path = "../servers/mod.rs"] mod servers;`).
#![allow(dead_code)]

pub mod etcd;
mod ports;
pub mod proxy;
