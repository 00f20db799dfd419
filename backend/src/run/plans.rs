//! Plans of segments, kept for the next time the same segment comes.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use kiln_lowering::DType;
use kiln_lowering::graph::{Graph, Op};
use kiln_lowering::pipeline;
use kiln_lowering::schedule::{InputData, Options, Plan, Step};
use rustc_hash::FxHashMap;

use super::dump;
use super::engine::Memory;
use super::fate::{Sources, sources};
use super::kernels::{Effort, Kernel, Kernels};
use super::parts::{Part, parts};
use crate::inspect::Shape;
use crate::knobs::Stage;

/// Plans kept at most; beyond, those not used for longest go.
const KEPT: usize = 1024;

/// Trust in a plan whose segments were not begun with yet.
const LUCK: i32 = 4;

/// A plan that can run.
pub(super) struct Ready {
    pub(super) plan: Plan,
    /// Unlike any other's, counted as they are made.
    pub(super) number: u64,
    pub(super) kernels: Vec<Result<Kernel, String>>,
    /// How it went with segments that were begun with: below 0 where too many turned out to be another's.
    pub(super) luck: Cell<i32>,
    /// What is asked for together.
    pub(super) parts: Vec<Part>,
    /// What the graph's inputs are taken for.
    pub(super) inputs: Vec<(DType, InputData)>,
    /// What reports say about it.
    pub(super) shape: Arc<Shape>,
    sources: OnceCell<Vec<Sources>>,
    /// What the engine remembers of it, part by part.
    pub(super) memory: RefCell<Vec<Memory>>,
}

impl Ready {
    /// What each output is computed from.
    pub(super) fn sources(&self) -> &[Sources] {
        self.sources.get_or_init(|| sources(&self.plan))
    }
}

struct Entry {
    graph: Graph,
    options: Options,
    ready: Rc<Ready>,
    used: u64,
}

impl Entry {
    /// Whether it would be planned so with these options: of what was measured since, all that counts is how its own
    /// products are computed.
    fn suits(&self, options: &Options) -> bool {
        let Options { fuse, gemm_from, grain, choices } = options;
        let own = (&self.options.fuse, &self.options.gemm_from, &self.options.grain);
        let decided = &self.ready.plan.decided;
        own == (fuse, gemm_from, grain) && decided.iter().all(|(c, way)| choices.get(c).is_none_or(|w| w == *way))
    }
}

/// The plans of a device.
#[derive(Default)]
pub(super) struct Plans {
    entries: FxHashMap<u64, Vec<Entry>>,
    count: usize,
    clock: u64,
    made: u64,
}

impl Plans {
    /// The plan of a graph, and what making it took, if it was made now.
    pub(super) fn get(
        &mut self,
        kernels: &mut Kernels,
        (hash, graph): (u64, &Graph),
        inputs: &[InputData],
        options: &Options,
    ) -> (Rc<Ready>, Option<Effort>) {
        self.clock += 1;
        let clock = self.clock;
        let fits = |e: &Entry| e.ready.inputs.iter().map(|(_, input)| input).eq(inputs);
        let same = |e: &Entry| e.suits(options) && fits(e) && e.graph == *graph;
        if let Some(entry) = self.entries.get_mut(&hash).and_then(|list| list.iter_mut().find(|e| same(e))) {
            entry.used = clock;
            return (Rc::clone(&entry.ready), None);
        }
        let (ready, effort) = self.make(kernels, (hash, graph), inputs, options);
        let entry = Entry { graph: graph.clone(), options: options.clone(), ready: Rc::clone(&ready), used: clock };
        self.entries.entry(hash).or_default().push(entry);
        self.count += 1;
        if self.count > KEPT {
            self.thin();
        }
        (ready, Some(effort))
    }

    /// A plan that nobody else gets.
    pub(super) fn make(
        &mut self,
        kernels: &mut Kernels,
        (hash, graph): (u64, &Graph),
        inputs: &[InputData],
        options: &Options,
    ) -> (Rc<Ready>, Effort) {
        let mut plan = pipeline::plan_for(graph, inputs, options, &|gemm| kernels.engine.absorbs(gemm));
        // A product whose operands lie in no way that the library knows becomes a kernel, with all others of its segment.
        if plan.steps.iter().any(|s| matches!(s, Step::Gemm(gemm) if !kernels.engine.takes(gemm))) {
            let gemm_from = options.gemm_from.map(|_| u64::MAX);
            plan = pipeline::plan(graph, inputs, &Options { gemm_from, ..options.clone() });
        }
        let (found, effort) = kernels.get(&plan.programs);
        let shape = Arc::new(Shape::of(graph, &plan));
        let name = format!("segment-{hash:016x}");
        dump::write(Stage::Graph, &name, || graph.to_string());
        dump::write(Stage::Schedule, &name, || format!("{shape}\n{plan}"));
        for program in &plan.programs {
            dump::write(Stage::Tile, &dump::label(program), || program.to_string());
        }
        self.made += 1;
        let dtypes = graph.nodes.values().filter(|data| matches!(data.op, Op::Input(_))).map(|data| data.dtype);
        let ready = Rc::new(Ready {
            parts: parts(&plan),
            inputs: dtypes.zip(inputs.iter().cloned()).collect(),
            plan,
            number: self.made,
            luck: Cell::new(LUCK),
            kernels: found,
            shape,
            sources: OnceCell::new(),
            memory: RefCell::default(),
        });
        (ready, effort)
    }

    /// Lets go of the quarter of the plans that were not used for longest.
    fn thin(&mut self) {
        let mut times: Vec<u64> = self.entries.values().flatten().map(|e| e.used).collect();
        times.sort_unstable();
        let oldest = times[times.len() / 4];
        for list in self.entries.values_mut() {
            list.retain(|e| e.used > oldest);
        }
        self.entries.retain(|_, list| !list.is_empty());
        self.count = self.entries.values().map(Vec::len).sum();
    }
}
