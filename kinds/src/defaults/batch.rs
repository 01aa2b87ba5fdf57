//! What is filled in of Jobs and CronJobs (http.md 7).
