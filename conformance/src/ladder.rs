//! The ladder: one case on every target.  The first unequal neighbours name the guilty level.
//!
//! 1. On each target, all nodes are computed as outputs.  On the first, each node's value is compared with what the oracle
//!    computes from that target's own operands, so that errors do not add up and each row meets its own bound; on each
//!    further target the bits must be those of the one before.
//! 2. On each target, the outputs that the case wants are computed, fused and not: the same bits again.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kiln_lowering::graph::arbitrary::{Case, Draws};
use kiln_lowering::graph::{Array, Graph, Node, NodeData, Op, oracle, verify};
use kiln_lowering::schedule::{Grain, Options, plan};

use crate::execute::execute;
use crate::layouts::{Laid, Lay, lay};
use crate::targets::{self, Machine};
use crate::tolerance::{Allowed, agrees, bounds};

/// How a case is run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// How its inputs are laid out.
    pub lay: Lay,
    /// Seed of random layouts.
    pub seed: u64,
    /// Whether products go to the library, which keeps its own order of sums.
    pub library: bool,
    /// How plans are cut.
    pub grain: Grain,
}

impl Default for Setting {
    fn default() -> Setting {
        Setting { lay: Lay::Dense, seed: 0, library: false, grain: targets::FOR_VECTORS }
    }
}

impl Setting {
    /// Runs a graph on a machine; a panic below is an error like any other.
    pub fn run(&self, case: &Case, graph: &Graph, fuse: bool, machine: &dyn Machine) -> Result<Vec<Array>, String> {
        catch_unwind(AssertUnwindSafe(|| self.run_once(case, graph, fuse, machine))).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            Err(format!("panicked: {}", text.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default()))
        })
    }

    fn run_once(&self, case: &Case, graph: &Graph, fuse: bool, machine: &dyn Machine) -> Result<Vec<Array>, String> {
        let mut draws = Draws::new(self.seed);
        let inputs: Vec<Laid> = case.inputs.iter().map(|input| lay(input, self.lay, &mut draws)).collect();
        let data: Vec<_> = inputs.iter().map(|laid| laid.data.clone()).collect();
        let gemm_from = self.library.then_some(1);
        let planned = plan(graph, &data, &Options::new(fuse, gemm_from, self.grain));
        let outputs: Vec<&NodeData> = graph.outputs.iter().map(|&n| &graph.nodes[n]).collect();
        execute(&planned, &inputs, &case.slots, &outputs, machine)
    }
}

/// Checks a case on every target; the error is a report.
pub fn check(case: &Case, setting: &Setting) -> Result<(), String> {
    if let Some(violation) = verify(&case.graph).first() {
        return Err(format!("invalid graph: {violation}"));
    }
    let mut every = case.graph.clone();
    every.outputs = every.nodes.keys().collect();
    let mut before: Option<(&str, Vec<Array>)> = None;
    for (target, machine) in targets::present() {
        let (name, setting) = (target.name, Setting { grain: target.grain, ..setting.clone() });
        let values = setting.run(case, &every, true, machine).map_err(|e| format!("on {name}: {e}"))?;
        match &before {
            None => against_oracle(case, &values).map_err(|e| format!("on {name}, against the oracle: {e}"))?,
            Some((other, want)) => {
                for (node, (got, want)) in every.outputs.iter().zip(values.iter().zip(want)) {
                    same(got, want).map_err(|e| format!("on {name}, against {other}: {}\n{e}", line(&every, *node)))?;
                }
            }
        }
        for fuse in [true, false] {
            let how = if fuse { "fused" } else { "not fused" };
            let outputs =
                setting.run(case, &case.graph, fuse, machine).map_err(|e| format!("on {name}, {how}: {e}"))?;
            for (got, &node) in outputs.iter().zip(&case.graph.outputs) {
                let want = &values[node.as_u32() as usize];
                // The library's order of sums may depend on what lies around a product.
                same(got, want)
                    .map_err(|e| format!("on {name}, {how}, against all nodes: {}\n{e}", line(&every, node)))?;
            }
        }
        before = Some((name, values));
    }
    Ok(())
}

fn line(graph: &Graph, node: Node) -> String {
    format!("{node}: {}", graph.nodes[node])
}

/// Compares each node with what the oracle makes of the same operands.
fn against_oracle(case: &Case, values: &[Array]) -> Result<(), String> {
    for (node, data) in &case.graph.nodes {
        let args: Vec<&Array> = data.args.iter().map(|a| &values[a.as_u32() as usize]).collect();
        let want = oracle::step(node, data, &args, &case.inputs, &case.slots).map_err(|e| e.to_string())?;
        let got = &values[node.as_u32() as usize];
        let allowed = bounds(data, &args);
        let wrong = (0..want.bits.len()).find(|&i| !agrees(data.dtype, got.bits[i], want.bits[i], allowed.of(i)));
        if let Some(i) = wrong {
            let mut report = format!("{}\n{}", line(&case.graph, node), differ(got, &want, i, allowed.of(i)));
            if let Op::Map(_) = data.op {
                for arg in args {
                    report += &format!("\n  operand {} ({:#x})", element(arg, i), arg.bits[i]);
                }
            }
            return Err(report);
        }
    }
    Ok(())
}

/// Compares bits; a NaN may be another NaN.
pub fn same(got: &Array, want: &Array) -> Result<(), String> {
    let wrong = (0..want.bits.len()).find(|&i| !agrees(want.dtype, got.bits[i], want.bits[i], Allowed::Equal));
    wrong.map_or(Ok(()), |i| Err(differ(got, want, i, Allowed::Equal)))
}

fn element(array: &Array, i: usize) -> String {
    if array.dtype.is_float() { format!("{:?}", array.float(i)) } else { array.int(i).to_string() }
}

fn differ(got: &Array, want: &Array, i: usize, allowed: Allowed) -> String {
    format!(
        "  element {i} of {:?}: wanted {} ({:#x}), got {} ({:#x}); allowed: {allowed:?}",
        want.dims.as_slice(),
        element(want, i),
        want.bits[i],
        element(got, i),
        got.bits[i]
    )
}

/// Checks a case; a failing one is made small and then ends the test with its report.
pub fn assert_case(case: Case, setting: &Setting) {
    if check(&case, setting).is_err() {
        // Whatever fails of the smaller case is worth a look, even where it is another fault.
        let least = kiln_lowering::graph::arbitrary::minimize(case, |c| check(c, setting).is_err());
        let report = check(&least, setting).err().unwrap_or_default();
        panic!("{report}\n{least}{setting:?}");
    }
}
