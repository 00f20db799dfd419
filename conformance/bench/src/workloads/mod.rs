//! The table of workloads, in the order in which they are shown. One file a family.

mod attention;
mod gpt;
mod norms;
mod pointwise;
mod products;
mod reductions;

use crate::workload::Workload;

const FAMILIES: &[&[Workload]] = &[
    pointwise::WORKLOADS,
    norms::WORKLOADS,
    reductions::WORKLOADS,
    products::WORKLOADS,
    attention::WORKLOADS,
    gpt::WORKLOADS,
];

/// Every workload.
pub fn all() -> impl Iterator<Item = &'static Workload> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_words() {
        let mut names: Vec<_> = all().map(|workload| workload.name).collect();
        assert!(names.iter().all(|name| !name.contains(char::is_whitespace)));
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
