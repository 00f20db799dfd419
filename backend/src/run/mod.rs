//! Running: a thread per device takes segments in the order they come, plans them, compiles what is new, and launches.

mod ahead;
mod blas;
mod cache;
mod capture;
mod dump;
mod engine;
mod execute;
mod exit;
mod explain;
mod failure;
mod fate;
mod flight;
mod gather;
mod graph;
mod heap;
mod hold;
mod kernels;
mod machine;
mod memory;
mod parts;
mod place;
mod plans;
mod profile;
mod records;
mod replay;
mod runner;
mod sort;
mod stay;
mod tail;
mod tune;
mod warn;

pub(crate) use ahead::Ahead;
#[cfg(test)]
pub(crate) use engine::delayed;
pub(crate) use engine::{about, count};
pub(crate) use failure::Failure;
pub(crate) use machine::{Machine, Message};
pub use memory::Usage;
pub(crate) use place::{Place, move_place, place_bytes, read_place};
pub(crate) use profile::Watch;
pub(crate) use warn::warn;
