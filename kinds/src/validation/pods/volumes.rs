//! What is refused of Volumes.
