//! The whole compiler on one page.
//!
//! ```text
//! Graph           graph::build       whole tensors; shapes and types are inferred as it is built
//!   simplify      schedule::simplify what computes nothing goes; long sums become the tree they are defined to be
//!   group         schedule::fuse     rows that share a kernel; views become index arithmetic (schedule::trace)
//!   emit          schedule::emit     each group as a tile program: lanes, loops, sizes as arguments
//!   assemble      schedule::assemble steps in order, buffers for as long as they are needed
//! Plan            schedule::plan     what a device runs
//!   rewrite       passes::PASSES     rows become native, casts become machine casts, nothing is done twice
//!   lay out       layout::assign     which register of which lane holds which element
//!   lower         llvm::lower        one file per family of operations, the same for every target
//!   emit          target::*::object  machine code
//! Object          target::*::driver  loaded and launched
//! ```
//!
//! [`plan()`] is the upper half and depends on shapes; [`compile`] is the lower half and depends on the program's text and
//! the machine alone, which is why its results can be kept.

use crate::passes;
use crate::target::host::{self, Object};
use crate::tile::Program;

pub use crate::schedule::{plan, plan_for};

/// Shown the stages of a compilation: a stage's name, and a function that prints it.
pub type See<'a> = &'a mut dyn FnMut(&'static str, &dyn Fn() -> String);

/// Compiles a tile program for the processor that `compiler` was made for.
///
/// # Errors
///
/// LLVM's own words where it refuses the module; the names of functions that the object would need from elsewhere.
pub fn compile(program: &Program, compiler: &host::Compiler, see: See) -> Result<Object, host::Error> {
    let mut native = program.clone();
    passes::run(&mut native, &mut |_, _| {});
    see("native", &|| native.to_string());
    compiler.compile(&native, see)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::graph::{Graph, Reduction};
    use crate::op::Pointwise;
    use crate::schedule::{Grain, InputData, Layout, Options, Step};

    /// softmax over rows: three passes over a row in one kernel, every stage visible.
    #[test]
    fn a_softmax_is_one_kernel_and_every_stage_can_be_seen() {
        let mut graph = Graph::new();
        let x = graph.input(DType::F32, &[32, 100]);
        let max = graph.reduce(Reduction::Max, x, &[1], DType::F32);
        let shifted = graph.map(Pointwise::Sub, &[x, max]);
        let e = graph.map(Pointwise::Exp, &[shifted]);
        let sum = graph.reduce(Reduction::Sum, e, &[1], DType::F32);
        let y = graph.map(Pointwise::Div, &[e, sum]);
        graph.outputs.push(y);
        let input = InputData { layout: Layout::contiguous(&[32, 100]), buffer_len: 3200, donated: false };
        let plan = plan(&graph, &[input], &Options::new(true, None, Grain::of_vectors(4)));
        let launches = plan.steps.iter().filter(|s| matches!(s, Step::Launch { .. })).count();
        assert_eq!((plan.programs.len(), launches), (1, 1));

        let mut stages = Vec::new();
        let compiler = host::Compiler::new(&host::spec());
        let object = compile(&plan.programs[0], &compiler, &mut |stage, print| {
            assert!(!print().is_empty());
            stages.push(stage);
        });
        assert!(!object.unwrap().bytes.is_empty());
        for wanted in ["native", "llvm", "asm"] {
            assert!(stages.contains(&wanted), "{stages:?}");
        }
    }
}
