//! What is refused of networking.k8s.io.
