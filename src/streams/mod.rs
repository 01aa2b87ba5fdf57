//! Several streams within one connection: WebSocket, as clients speak it, and SPDY/3.1, as kubelets
//! do (connect.md 9 and 10).
//!
//! This folder owns the framing of both protocols, and the session that translates one into the
//! other. It takes byte streams that have been upgraded, and knows neither paths nor objects. The
//! framing is pure: it reads what has arrived, however it is split, and keeps no bytes but those of
//! an incomplete header.

pub mod command;
pub mod spdy;
pub mod websocket;
