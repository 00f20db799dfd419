//! What happened on a device: counters, and a record of the last segments, for tests that assert decisions.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use kiln_lowering::graph::Graph;
use kiln_lowering::schedule::{Arg, Plan, Step};

use crate::device::KilnDevice;
use crate::knobs;
use crate::record::{self, stream};
use crate::run::{Machine, warn};

pub use crate::run::Usage;

/// A launch of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Name of the program.
    pub program: String,
    /// Rows of the graph that it computes.
    pub rows: Vec<&'static str>,
    /// Numbers of program instances.
    pub grid: [u32; 3],
    /// Whether it finishes the product before it, which computes it part by part: the two count as one product.
    pub is_tail: bool,
}

/// What a plan does, whatever its numbers are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Rows of the graph, views and leaves not counted.
    pub rows: usize,
    /// Kernels, in order.
    pub launches: Vec<Launch>,
    /// Products by the BLAS.
    pub gemms: usize,
    /// Those among them whose epilogue is the BLAS's, too, which no kernel finishes.
    pub epilogues: usize,
    /// Sorts.
    pub sorts: usize,
    /// Outputs that lie in an operand's memory, as views of it.
    pub aliases: usize,
    /// Buffers that took over another's memory.
    pub donations: usize,
    /// Bytes of the buffers that steps name, each counted once a step.
    pub bytes: u64,
    /// The steps as text.
    steps: Vec<String>,
}

impl Shape {
    pub(crate) fn of(graph: &Graph, plan: &Plan) -> Shape {
        let mut shape = Shape { rows: graph.nodes.values().filter(|n| !n.op.is_free()).count(), ..Shape::default() };
        let bytes = |buf| plan.buffers[buf].len * plan.buffers[buf].dtype.bytes() as u64;
        let mut follows = false;
        for step in &plan.steps {
            let is_tail = std::mem::replace(&mut follows, matches!(step, Step::Gemm(g) if g.tail.is_some()));
            match step {
                Step::Launch { program, grid, args, rows, .. } => {
                    let program = plan.programs[*program].name.clone();
                    let buffers = args.iter().filter_map(|a| if let Arg::Buffer(b) = a { Some(*b) } else { None });
                    let names: Vec<String> = buffers.clone().map(|b| format!("{b}")).collect();
                    shape.bytes += buffers.map(bytes).sum::<u64>();
                    let what = if is_tail { "tail" } else { "launch" };
                    shape.steps.push(format!("{what} {program} {grid:?} {}: {}", names.join(" "), rows.join(" ")));
                    shape.launches.push(Launch { program, rows: rows.clone(), grid: *grid, is_tail });
                }
                Step::Gemm(g) => {
                    shape.gemms += 1;
                    shape.epilogues += usize::from(g.epilogue.is_some());
                    shape.bytes += g.buffers().into_iter().map(bytes).sum::<u64>();
                    let (a, b, c) = (g.a.buffer, g.b.buffer, g.c.buffer);
                    let batch = g.batch.as_slice();
                    let epilogue = g.epilogue.map(|epilogue| epilogue.to_string()).unwrap_or_default();
                    let what = format!("gemm {} {batch:?} {}x{}x{}", g.dtype, g.m, g.n, g.k);
                    shape.steps.push(format!("{what}: {c} = {a} {b}{epilogue}"));
                }
                Step::Sort(s) => {
                    shape.sorts += 1;
                    shape.bytes += bytes(s.input) + bytes(s.output);
                    shape.steps.push(format!(
                        "sort {:?} axis {}: {} = {}",
                        s.dims.as_slice(),
                        s.axis,
                        s.output,
                        s.input
                    ));
                }
                Step::Free(buf) => shape.steps.push(format!("free {buf}")),
            }
        }
        shape.aliases = plan.outputs.iter().filter(|o| plan.buffers[o.buffer].input.is_some()).count();
        shape.donations = plan.buffers.values().filter(|b| b.takes.is_some()).count();
        shape
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

/// A segment that ran.
#[derive(Clone, Debug)]
pub struct Segment {
    pub(crate) stream: u64,
    /// Operations recorded in it.
    pub ops: Vec<&'static str>,
    /// What its plan does.
    pub shape: Arc<Shape>,
    /// Whether the plan was known from before.
    pub plan_known: bool,
    /// Kernels compiled for it.
    pub compiled: u64,
    /// Kernels found on disk.
    pub cache_hits: u64,
    /// Time that finding and compiling kernels took.
    pub compile_time: Duration,
}

/// The segments that ran during [`record()`].
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// In order.
    pub segments: Vec<Segment>,
}

impl Report {
    /// Number of recorded operations in the segments that ran.
    pub fn ops(&self) -> usize {
        self.segments.iter().map(|s| s.ops.len()).sum()
    }

    /// Kernels, in order.
    pub fn launches(&self) -> Vec<&Launch> {
        self.segments.iter().flat_map(|s| &s.shape.launches).collect()
    }

    /// Number of kernels, without those that finish a product.
    pub fn kernels(&self) -> usize {
        self.launches().iter().filter(|launch| !launch.is_tail).count()
    }

    /// Number of kernels that finish a product while it is computed: bias, activation, residual, norm.
    pub fn tails(&self) -> usize {
        self.launches().iter().filter(|launch| launch.is_tail).count()
    }

    /// Number of products whose epilogue, a bias or an activation, the BLAS computes with them.
    pub fn epilogues(&self) -> usize {
        self.segments.iter().map(|s| s.shape.epilogues).sum()
    }

    /// Number of products by the BLAS.
    pub fn gemms(&self) -> usize {
        self.segments.iter().map(|s| s.shape.gemms).sum()
    }

    /// Number of kernels compiled.
    pub fn compiled(&self) -> u64 {
        self.segments.iter().map(|s| s.compiled).sum()
    }

    /// Number of kernels found on disk.
    pub fn cache_hits(&self) -> u64 {
        self.segments.iter().map(|s| s.cache_hits).sum()
    }

    /// Number of segments whose plan was made now.
    pub fn planned(&self) -> usize {
        self.segments.iter().filter(|s| !s.plan_known).count()
    }

    /// Outputs that lie in an operand's memory.
    pub fn aliases(&self) -> usize {
        self.segments.iter().map(|s| s.shape.aliases).sum()
    }

    /// Buffers that took over another's memory.
    pub fn donations(&self) -> usize {
        self.segments.iter().map(|s| s.shape.donations).sum()
    }

    /// Bytes of the buffers that steps name.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.shape.bytes).sum()
    }
}

/// Numbers of things that happened on a device since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Operations recorded.
    pub ops: u64,
    /// Segments run.
    pub segments: u64,
    /// Kernels launched.
    pub launches: u64,
    /// Products by the BLAS.
    pub gemms: u64,
    /// Segments planned.
    pub planned: u64,
    /// Kernels compiled.
    pub compiled: u64,
    /// Time for planned segments' kernels to be found or compiled.
    pub compile_time: Duration,
    /// Kernels found on disk.
    pub cache_hits: u64,
    /// Parts of plans that were begun with while their segment was still being recorded.
    pub ahead: u64,
    /// Classes of products of which it was measured how they are computed best.
    pub tuned: u64,
    /// For how long the device's thread has looked for work before it slept.
    pub look_time: Duration,
    /// Memory.
    pub memory: Usage,
}

/// The counters of a device.
pub fn counts(device: &KilnDevice) -> Counts {
    counts_of(Machine::of(device))
}

fn counts_of(machine: &Machine) -> Counts {
    let c = &machine.counters;
    Counts {
        ops: c.ops.load(Relaxed),
        segments: c.segments.load(Relaxed),
        launches: c.launches.load(Relaxed),
        gemms: c.gemms.load(Relaxed),
        planned: c.planned.load(Relaxed),
        compiled: c.compiled.load(Relaxed),
        compile_time: Duration::from_nanos(c.compile_nanos.load(Relaxed)),
        cache_hits: c.cache_hits.load(Relaxed),
        ahead: c.ahead.load(Relaxed),
        tuned: c.tuned.load(Relaxed),
        look_time: Duration::from_nanos(c.look_nanos.load(Relaxed)),
        memory: machine.pool.usage(),
    }
}

/// What running everything that this thread records in `f` took.
///
/// # Panics
///
/// If something failed.
pub fn record<T>(device: &KilnDevice, f: impl FnOnce() -> T) -> (T, Report) {
    record::flush(device);
    let stream = stream::of(device);
    let machine = stream.machine;
    let _ = machine.wait();
    machine.listen(stream.number, true);
    let made = f();
    let synced = record::sync(device);
    let segments = machine.listen(stream.number, false);
    if let Err(error) = synced {
        panic!("work under inspection failed: {error}");
    }
    (made, Report { segments })
}

/// A device of this computer, or a kind of which it has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// As [`KilnDevice`] is read: `cpu`, `cuda:0`; without a number where there is none.
    pub device: String,
    /// What is known of it, by name; `unavailable` says why it cannot be used.
    pub facts: Vec<(&'static str, String)>,
}

/// Every device of this computer.  Opens GPUs for it, which takes a moment each.
pub fn devices() -> Vec<About> {
    crate::run::about().into_iter().map(|(device, facts)| About { device, facts }).collect()
}

/// Runs `f` with fusing on or off for what this thread records in it.
pub fn with_fusing<T>(fuse: bool, f: impl FnOnce() -> T) -> T {
    stream::with_fusing(fuse, f)
}

/// Runs `f` with strict numerics for what this thread records in it: all products are Kiln's own.
pub fn with_strict<T>(f: impl FnOnce() -> T) -> T {
    stream::with_strict(f)
}

/// Adds a line to the file of [`knobs::KILN_STATS`].
pub(crate) fn write_stats(machine: &Machine) {
    let Some(path) = &knobs::get().stats else { return };
    let c = counts_of(machine);
    let line = format!(
        "{{\"device\":\"{}\",\"ops\":{},\"segments\":{},\"launches\":{},\"gemms\":{},\"planned\":{},\"compiled\":{},\
         \"compile_seconds\":{:.6},\"cache_hits\":{},\"ahead\":{},\"tuned\":{},\"bytes_used\":{},\"bytes_peak\":{},\"bytes_kept\":{},\"allocations\":{}}}\n",
        machine.device,
        c.ops,
        c.segments,
        c.launches,
        c.gemms,
        c.planned,
        c.compiled,
        c.compile_time.as_secs_f64(),
        c.cache_hits,
        c.ahead,
        c.tuned,
        c.memory.used,
        c.memory.peak,
        c.memory.kept,
        c.memory.allocations,
    );
    let written =
        OpenOptions::new().create(true).append(true).open(path).and_then(|mut f| f.write_all(line.as_bytes()));
    if let Err(error) = written {
        warn(&format!("cannot write {} of {}: {error}", path.display(), knobs::KILN_STATS));
    }
}
