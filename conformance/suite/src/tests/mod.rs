//! Every test of the suite, by the module that holds it.

pub mod assembly;
pub mod burn;
pub mod dtypes;
pub mod errors;
pub mod gpt;
pub mod graphs;
pub mod ladder;
pub mod models;
pub mod process;
pub mod reference;
pub mod rows;
pub mod sizes;
pub mod values;

use crate::test::Test;

/// Modules with their tests, as they are run.
const GROUPS: &[(&str, &[Test])] = &[
    ("rows", rows::TESTS),
    ("ladder", ladder::TESTS),
    ("graphs", graphs::TESTS),
    ("assembly", assembly::TESTS),
    ("dtypes", dtypes::TESTS),
    ("values", values::TESTS),
    ("errors", errors::TESTS),
    ("sizes", sizes::TESTS),
    ("process", process::TESTS),
    ("reference::convolution", reference::convolution::TESTS),
    ("reference::elementwise", reference::elementwise::TESTS),
    ("reference::indexing", reference::indexing::TESTS),
    ("reference::norms", reference::norms::TESTS),
    ("reference::pooling", reference::pooling::TESTS),
    ("reference::reductions", reference::reductions::TESTS),
    ("reference::resizing", reference::resizing::TESTS),
    ("reference::shapes", reference::shapes::TESTS),
    ("burn::activations", burn::activations::TESTS),
    ("burn::against", burn::against::TESTS),
    ("burn::blocks", burn::blocks::TESTS),
    ("burn::captures", burn::captures::TESTS),
    ("burn::cases", burn::cases::TESTS),
    ("burn::decisions", burn::decisions::TESTS),
    ("burn::epilogues", burn::epilogues::TESTS),
    ("burn::faults", burn::faults::TESTS),
    ("burn::gradients", burn::gradients::TESTS),
    ("burn::memory", burn::memory::TESTS),
    ("burn::metamorphic", burn::metamorphic::TESTS),
    ("burn::moves", burn::moves::TESTS),
    ("burn::profiles", burn::profiles::TESTS),
    ("gpt", gpt::TESTS),
    ("models", models::TESTS),
];

/// Every test with its module.
pub fn all() -> impl Iterator<Item = (&'static str, &'static Test)> {
    GROUPS.iter().flat_map(|(path, tests)| tests.iter().map(move |test| (*path, test)))
}
