//! Real servers for tests.
//!
//! This folder starts and stops the etcds that `tests/run.sh` fetches and the Kubernetes programs
//! that the environment names, and has free ports and proxies. Suites share it with `#[path =
//! "../servers/mod.rs"] mod servers;`. It does not know the daemon.
#![allow(dead_code)]

pub mod controllers;
pub mod etcd;
pub mod kube_apiserver;
#[allow(clippy::duplicate_mod)]
pub mod not_run;
pub mod ports;
pub mod programs;
pub mod proxy;
