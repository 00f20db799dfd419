//! What tests across crates share. The tests themselves are in `tests/`.

pub mod report;
