//! What is filled in of volumes, claims and storage.k8s.io (http.md 7).
