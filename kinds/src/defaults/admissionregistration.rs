//! What is filled in of webhooks and admission policies (http.md 7).
