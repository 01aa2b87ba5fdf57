//! What is refused of Selectors of labels.
