//! What is refused of rbac.authorization.k8s.io.
