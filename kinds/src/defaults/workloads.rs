//! What is filled in of the group apps, ReplicationControllers and PodTemplates (http.md 7).
