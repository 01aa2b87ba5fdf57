//! What is refused of Leases.
