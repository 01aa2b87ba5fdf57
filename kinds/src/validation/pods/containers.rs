//! What is refused of Containers.
