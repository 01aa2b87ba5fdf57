//! What is refused of HorizontalPodAutoscalers.
