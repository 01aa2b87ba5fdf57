//! What is refused of Jobs and CronJobs.
