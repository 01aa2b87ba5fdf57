//! What is refused of ConfigMaps, Secrets, ServiceAccounts and Namespaces.
