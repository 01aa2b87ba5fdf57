//! The Supervisor: starts everyone, restarts the fallen, gives up loudly.

mod house;

pub use house::{CacherSpec, House, HouseConfig, HouseError, HouseState, PartState};
