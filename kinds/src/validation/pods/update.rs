//! What is refused of Changes of pods.
