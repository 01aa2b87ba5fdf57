//! What is refused of volumes, claims and storage.k8s.io.
