//! What can be known about the values of a tile program without running it.

pub mod axis;
