//! The kernels of the suite: cases whose plans hold them, from tables, from files, and from programs of Burn's tensor API.

use std::collections::BTreeMap;

use kiln_conformance::{graphs, tables};
use kiln_lowering::dtype::Class;
use kiln_lowering::graph::arbitrary::{Case, Draws, Fill, Wishes, case, fill};
use kiln_lowering::graph::{Graph, Node, Op};

use crate::child::{self, Task};
use crate::tests::{burn, gpt};

/// Lengths of the reduced rows: a part of those that tests go through, which differ in numbers and not in kernels.
const LENGTHS: &[u64] = &[0, 1, 7, 33, 257, 1025];

/// Seeds of generated graphs, and of programs.
const GRAPHS: std::ops::Range<u64> = 0..40;
const PROGRAMS: std::ops::Range<u64> = 5000..5060;

/// What children do.
pub const TASKS: &[Task] = &[("programs", run_programs)];

/// Every case, with a name that says where it comes from.
///
/// # Errors
///
/// If the programs could not be recorded.
pub fn cases() -> Result<Vec<(String, Case)>, String> {
    let mut all = of_tables();
    all.extend(of_graphs()?);
    all.extend(of_programs()?);
    Ok(all)
}

/// Every row on every type and kind of operand.
pub fn of_tables() -> Vec<(String, Case)> {
    let mut all = tables::every_pointwise();
    all.extend(tables::every_reduction(LENGTHS));
    all
}

/// Generated graphs, and those in files.
///
/// # Errors
///
/// If a file holds no graph.
pub fn of_graphs() -> Result<Vec<(String, Case)>, String> {
    let mut all: Vec<_> = GRAPHS.map(|seed| (format!("graph {seed}"), case(seed, &Wishes::default()))).collect();
    for &(name, text) in graphs::FILES {
        all.push((name.to_owned(), of_graph(text.parse().map_err(|error| format!("{name}:{error}"))?)));
    }
    Ok(all)
}

/// Runs programs of Burn's tensor API, for the sake of what is recorded.
fn run_programs() {
    let device = burn_tensor::Device::new(crate::DEVICE);
    for seed in PROGRAMS {
        drop(burn::program::run(seed, 8, &device));
    }
    gpt::losses(&device);
}

/// The graphs that a child records while it runs programs, each once.
///
/// # Errors
///
/// If the child failed.
pub fn of_programs() -> Result<Vec<(String, Case)>, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = folder.path().to_string_lossy().into_owned();
    let variables = [("KILN_DUMP", "graph"), ("KILN_DUMP_DIR", &path), ("KILN_DEVICE", "cpu")];
    let output = child::run("programs", &variables);
    if !output.status.success() {
        return Err(format!("programs could not be recorded: {}", child::text(&output)));
    }
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder.path()).map_err(|error| error.to_string())?.flatten() {
        let text = std::fs::read_to_string(entry.path()).map_err(|error| error.to_string())?;
        let graph: Graph = text.parse().map_err(|error| format!("{}: {error}", entry.path().display()))?;
        found.insert(text, graph);
    }
    let named = found.into_values().enumerate();
    Ok(named.map(|(at, graph)| (format!("program segment {at:03}"), of_graph(graph))).collect())
}

/// A graph on numbers of moderate size; what is used as an index is one.
fn of_graph(graph: Graph) -> Case {
    let below = extents(&graph);
    let mut draws = Draws::new(7);
    let inputs = graph.nodes.iter().filter_map(|(node, data)| match data.op {
        Op::Input(_) => {
            let with = below[node.as_u32() as usize].map_or(Fill::Ordinary, Fill::Below);
            Some(fill(&mut draws, data.dtype, &data.dims, with))
        }
        _ => None,
    });
    let (inputs, slots) = (inputs.collect(), vec![1234; graph.slots.len()]);
    Case { graph, inputs, slots }
}

/// For each node the extent that it indexes, if it does, or what is computed from it does.
fn extents(graph: &Graph) -> Vec<Option<u64>> {
    let mut below: Vec<Option<u64>> = vec![None; graph.nodes.len()];
    let narrow = |below: &mut Vec<Option<u64>>, node: Node, extent: u64| {
        let place = &mut below[node.as_u32() as usize];
        *place = Some(place.map_or(extent, |old| old.min(extent)));
    };
    // Users come after what they use: backwards, every use of a node is known before the node.
    for (node, data) in graph.nodes.iter().rev() {
        if let Op::Gather(_, axis) | Op::Scatter(_, axis, _) = data.op {
            narrow(&mut below, data.args[1], graph.nodes[data.args[0]].dims[usize::from(axis)]);
        }
        if let Some(extent) = below[node.as_u32() as usize] {
            let whole = |arg: &&Node| matches!(graph.nodes[**arg].dtype.class(), Class::Signed | Class::Unsigned);
            data.args.iter().filter(whole).for_each(|&arg| narrow(&mut below, arg, extent));
        }
    }
    below
}
