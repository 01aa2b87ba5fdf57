//! Connections of clients: sockets, TLS, HTTP/1.1 and HTTP/2, bodies, fairness and limits.
//!
//! This folder contains everything between a socket and an [`HttpService`], which answers requests.
//! It does not know the Kubernetes API: paths, resources, users and the text of a refusal are the
//! business of the service. The service describes what the transport must know in the transport's
//! own terms: the opaque [`Owner`] of a connection, the response to a [`Refusal`], and whether
//! access to a [`WatchBody`] has been revoked.
//!
//! [`listener`] accepts connections and gives each to an HTTP thread ([`thread`]). [`http1`] and
//! [`http2`] read its requests, call the service and write the responses. `fairness` divides the
//! time of a thread among owners, and [`limits`] bounds what a connection may hold.

mod buffer_pool;
mod connection_state;
pub mod fairness;
mod frame_batch;
mod host;
mod http1;
mod http2;
mod http_date;
pub mod limits;
mod lingering_close;
pub mod listener;
mod request_body;
mod response_body;
mod service;
mod session;
mod slots;
mod thread;
pub mod tls;
mod vanished;

pub use request_body::{BodyError, BodySource, RequestBody};
pub use response_body::{Ending, PIECE_BYTES, Pieces, ResponseBody, WatchBody};
pub use service::{ConnectionFacts, HttpService, LongReads, Owner, Refusal};
pub use session::{ClientStream, Session};
pub use thread::watch_frames;
