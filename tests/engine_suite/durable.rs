//! What only an engine with a file must do.
