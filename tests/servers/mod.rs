//! Real servers for tests.
//!
//! This folder owns the start and stop of etcds that `tests/run.sh` fetches, of programs of
//! Kubernetes that the environment names, free ports and proxies. Suites share it with
//! `#[path = "../servers/mod.rs"] mod servers;`. It must not know the
//! daemon.
#![allow(dead_code)]

pub mod controllers;
pub mod etcd;
pub mod kube_apiserver;
#[allow(clippy::duplicate_mod)]
pub mod not_run;
pub mod ports;
pub mod programs;
pub mod proxy;
