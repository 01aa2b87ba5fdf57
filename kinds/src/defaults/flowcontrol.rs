//! What is filled in of flowcontrol.apiserver.k8s.io (http.md 7).
