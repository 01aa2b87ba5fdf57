//! What is refused of Where pods may run.
