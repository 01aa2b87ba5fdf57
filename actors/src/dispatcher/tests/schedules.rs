//! Random schedules against a plain reference of the event log.

use super::*;
