//! What is refused of Services.
