//! Running: a thread per device takes segments in the order they come, plans them, compiles what is new, and launches.

mod failure;
mod machine;
mod memory;
mod oracle;
mod place;
mod runner;

pub(crate) use failure::Failure;
pub(crate) use machine::{Counters, Machine, Message};
pub(crate) use memory::{Buffer, Pool};
pub(crate) use place::{Place, place_bytes, read_place};
