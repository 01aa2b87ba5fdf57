//! What is refused of Events.
