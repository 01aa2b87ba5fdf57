//! What is filled in of kinds of the core group that no other file has (http.md 7).
