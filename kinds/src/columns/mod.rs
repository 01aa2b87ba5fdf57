//! What Tables show of kinds (API-218, http.md 6.4): columns, and the cells that need more than a
//! path. Objects enter, cells leave.
