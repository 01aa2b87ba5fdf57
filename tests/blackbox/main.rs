//! Black-box tests: a real daemon, used as by its users.
//!
//! Each test starts a daemon in a temporary folder. Numbers such as API-89 name the behaviour that
//! a client of Kubernetes expects.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod harness;
mod load;
#[path = "../servers/mod.rs"]
mod servers;

mod accept;
mod admission;
mod amplification;
mod apply;
mod audit;
mod backups;
mod bad_input;
mod beside_kube_apiserver;
mod bookmarks;
mod client_go;
mod command_line;
mod component_statuses;
mod connections;
mod controllers;
mod damage;
mod deletion;
mod discovery;
mod doors;
mod dry_runs;
mod encryption;
mod errors;
mod every_kind;
mod expiry;
mod garbage_collection;
mod hostile;
mod hostile_settings;
mod identity;
mod informers;
mod kill;
mod kube_rs;
mod kube_rs_controller;
mod kube_rs_kinds;
mod kube_rs_patches;
mod kubectl;
mod kubectl_forms;
mod kubectl_life;
mod kubectl_patches;
mod kustomize;
mod large_requests;
mod limits;
mod lost_store;
mod managers;
mod model;
mod namespaces;
mod observation;
mod operating;
mod other_clients;
mod overrides;
mod past;
mod planted_files;
mod protobuf;
mod raw_json;
mod refusals;
mod removed;
mod replay;
mod restart;
mod retention;
mod reviews;
mod revocation;
mod rolling;
mod rollout;
mod scrapes;
mod security;
mod service_accounts;
mod services;
mod stalled;
mod storage_metrics;
mod stored;
mod sweep;
mod token_requests;
mod uncached;
mod unread_bodies;
mod users;
mod vanished;
mod versions;
mod warnings;
mod watch;
