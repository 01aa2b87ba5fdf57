//! What is refused of Webhooks and admission policies.
