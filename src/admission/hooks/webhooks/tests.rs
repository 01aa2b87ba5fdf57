//! Tests of the plugins with a transport that answers at once.
