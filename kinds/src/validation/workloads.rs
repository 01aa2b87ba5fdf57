//! What is refused of apps, ReplicationControllers and PodTemplates.
