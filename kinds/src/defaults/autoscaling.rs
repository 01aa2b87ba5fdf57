//! What is filled in of HorizontalPodAutoscalers (http.md 7).
