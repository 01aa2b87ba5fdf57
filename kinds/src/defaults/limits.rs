//! What is filled in of LimitRanges, quotas and priorities (http.md 7).
