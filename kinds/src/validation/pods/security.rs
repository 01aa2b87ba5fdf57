//! What is refused of Security contexts.
