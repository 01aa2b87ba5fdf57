//! Tests over TLS.
