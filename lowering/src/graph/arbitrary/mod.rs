//! Random valid graphs with data to run them on, for tests.  Knows no targets; a case is a function of its seed alone.

mod data;
mod draws;
mod make;
mod shrink;

use std::fmt::{self, Display, Formatter};

pub use data::{Fill, fill, specials};
pub use draws::Draws;
pub use make::MAKERS;
pub use shrink::minimize;

use super::array::Array;
use super::ir::Graph;

/// A graph with everything that running it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The graph.
    pub graph: Graph,
    /// Its inputs.
    pub inputs: Vec<Array>,
    /// Patterns of its slots.
    pub slots: Vec<u64>,
}

/// What graphs to make.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// Number of nodes to make, beside those that the makers need in passing.
    pub nodes: usize,
    /// Most elements in a tensor.
    pub elements: u64,
    /// Names of makers that are left out, see [`MAKERS`].
    pub without: Vec<&'static str>,
}

impl Default for Wishes {
    fn default() -> Wishes {
        Wishes { nodes: 12, elements: 2000, without: Vec::new() }
    }
}

/// The case of a seed.
pub fn case(seed: u64, wishes: &Wishes) -> Case {
    let mut maker = make::Maker::new(Draws::new(seed), wishes);
    maker.graph();
    maker.finish()
}

/// The graph, and its data as comments: the whole can be parsed as a graph.
impl Display for Case {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.graph)?;
        for (i, input) in self.inputs.iter().enumerate() {
            write!(f, "# input {i}:")?;
            for at in 0..input.bits.len().min(32) {
                match input.dtype.is_float() {
                    true => write!(f, " {:?}", input.float(at))?,
                    false => write!(f, " {}", input.int(at))?,
                }
            }
            writeln!(f, "{}", if input.bits.len() > 32 { " …" } else { "" })?;
        }
        writeln!(f, "# slots: {:x?}", self.slots)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::graph::{Op, oracle, verify};

    #[test]
    fn cases_are_valid_can_be_evaluated_and_round_trip() {
        for seed in 0..400 {
            let case = case(seed, &Wishes::default());
            assert_eq!(verify(&case.graph), [], "{case}");
            assert!(!case.graph.outputs.is_empty(), "{case}");
            if let Err(fault) = oracle::run(&case.graph, &case.inputs, &case.slots) {
                panic!("{fault}\n{case}");
            }
            let again: Graph = case.to_string().parse().unwrap();
            assert_eq!(again, case.graph);
            assert_eq!(again.canonical(), case.graph.canonical());
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_case() {
        assert_eq!(case(3, &Wishes::default()), case(3, &Wishes::default()));
        assert_ne!(case(3, &Wishes::default()), case(4, &Wishes::default()));
    }

    #[test]
    fn every_kind_of_node_is_made() {
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for seed in 0..600 {
            for data in case(seed, &Wishes::default()).graph.nodes.values() {
                let line = data.to_string();
                let name = line.split(" = ").nth(1).and_then(|op| op.split(' ').next());
                *counts.entry(name.unwrap_or_default().to_owned()).or_default() += 1;
                if let Op::Reduce(kind, _) | Op::Scan(kind, _) = data.op {
                    *counts.entry(format!("over {}", kind.name())).or_default() += 1;
                }
            }
        }
        let rows = crate::op::pointwise::TABLE.iter().map(|row| row.name.to_owned());
        let kinds = crate::graph::Reduction::ALL.iter().map(|kind| format!("over {}", kind.name()));
        let rest = "input constant scalar iota permute expand slice reshape pad window reduce scan contract gather \
                    scatter random sort argsort";
        for name in rows.chain(kinds).chain(rest.split_whitespace().map(str::to_owned)) {
            assert!(counts.contains_key(&name), "no `{name}` in {counts:?}");
        }
    }

    #[test]
    fn a_failing_case_shrinks_to_what_fails() {
        let has_sum = |case: &Case| {
            let sum = |op: &Op| matches!(op, Op::Reduce(crate::graph::Reduction::Sum, _));
            case.graph.nodes.values().any(|data| sum(&data.op))
        };
        let found = (0..).map(|seed| case(seed, &Wishes::default())).find(has_sum).unwrap();
        let least = minimize(found, has_sum);
        assert_eq!(least.graph.nodes.len(), 2, "{least}");
        assert_eq!(verify(&least.graph), []);
    }
}
