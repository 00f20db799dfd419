//! What holds across levels and targets: random and tabulated graphs on every target against the oracle, programs of
//! Burn's tensor API against their definitions and another backend. The tests themselves are in `suite/`.

pub mod assemble;
pub mod execute;
pub mod graphs;
pub mod ladder;
pub mod layouts;
pub mod report;
pub mod tables;
pub mod targets;
pub mod threads;
pub mod tolerance;
pub mod witness;
