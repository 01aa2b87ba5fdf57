//! What is refused of Forms of texts: names, addresses, ports, keys.
