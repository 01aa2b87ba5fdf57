//! What is filled in of pods and their templates (http.md 7).
