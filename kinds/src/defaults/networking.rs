//! What is filled in of networking.k8s.io and discovery.k8s.io (http.md 7).
