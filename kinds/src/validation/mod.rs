//! What the server refuses of objects that decoded well (API-146 to API-149, http.md 6.2).
//!
//! This folder owns pure functions that find all faults of an object, or of a change to one, in the
//! order and with the texts of kube-apiserver. Objects enter whose fields have the types of their
//! schema, filled in by [`crate::defaults`]. Faults leave. Rules for `metadata` are those of every
//! kind and are not checked here.

pub mod addresses;
pub mod admissionregistration;
pub mod apiextensions;
pub mod apiregistration;
pub mod asn1;
pub mod authentication;
pub mod authorization;
pub mod autoscaling;
pub mod batch;
pub mod certificates;
pub mod conditions;
pub mod core;
pub mod counts;
pub mod disruption;
pub mod endpoints;
pub mod events;
pub mod expressions;
pub mod flowcontrol;
pub mod formats;
pub mod internal;
pub mod leases;
pub mod limits;
pub mod networking;
pub mod nodes;
pub mod pods;
pub mod ratcheting;
pub mod rbac;
pub mod resource;
pub mod scheduling;
pub mod selectors;
pub mod services;
pub mod storage;
pub mod texts;
pub mod workloads;
