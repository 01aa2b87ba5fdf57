//! What is refused of Nodes.
