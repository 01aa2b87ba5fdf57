//! What is filled in of rbac.authorization.k8s.io (http.md 7).
