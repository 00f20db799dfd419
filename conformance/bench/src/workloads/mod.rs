//! The table of workloads, in the order in which they are shown. One file a family.

mod attention;
mod gpt;
mod gpt2;
mod norms;
mod pointwise;
mod products;
mod reductions;

pub use gpt::fill;

use crate::workload::Workload;

const FAMILIES: &[&[Workload]] = &[
    pointwise::WORKLOADS,
    norms::WORKLOADS,
    reductions::WORKLOADS,
    products::WORKLOADS,
    attention::WORKLOADS,
    gpt::WORKLOADS,
];

const LARGE: &[&[Workload]] =
    &[pointwise::LARGE, norms::LARGE, reductions::LARGE, products::LARGE, attention::LARGE, gpt2::LARGE];

/// Every workload of a size for processors.
pub fn all() -> impl Iterator<Item = &'static Workload> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

/// Every workload of a size for GPUs.
pub fn large() -> impl Iterator<Item = &'static Workload> {
    LARGE.iter().flat_map(|family| family.iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_words() {
        let mut names: Vec<_> = all().chain(large()).map(|workload| workload.name).collect();
        assert!(names.iter().all(|name| !name.contains(char::is_whitespace)));
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
