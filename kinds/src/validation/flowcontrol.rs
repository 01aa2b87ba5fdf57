//! What is refused of flowcontrol.apiserver.k8s.io.
