//! Plans that come again and again, as graphs: one call asks for the work of a plan, or of a part of a long one.
//!
//! The memory that a plan gets differs from run to run.  A graph's kernels are given new arguments where theirs have
//! changed, which costs about what a launch does; its products are not to be changed, so there is a graph for each set of
//! buffers that they have had, and few such sets where a program repeats itself.

use std::any::Any;

use kiln_lowering::target::nvidia::driver::{self, Device, Graph, Work};

use super::super::super::gather::{Asked, Submitted};
use super::super::{At, Memory, Ticket};
use super::{Loaded, text};
use crate::knobs;

/// Things to ask for that are worth a graph.  Launching one costs what two or three kernels do.
const WORTH: usize = 4;

/// Runs after which a plan is taken for one that comes again.
const REPEATED: u32 = 2;

/// Graphs of a plan at most.
const VARIANTS: usize = 4;

/// Graphs that were recorded, beyond the first few, after which a plan is left to launches: its memory never settles.
const TIRED: u32 = 16;

/// What is remembered of a plan.
#[derive(Default)]
struct Replays {
    runs: u32,
    recorded: u32,
    variants: Vec<Variant>,
}

struct Variant {
    products: Vec<At>,
    graph: Graph,
}

/// The kernel and its words, of something that is a launch.
fn launch<'a>(asked: &'a Asked<'_>, words: &'a [u64]) -> Option<(&'a Loaded, [u32; 3], &'a [u64], bool)> {
    match asked {
        Asked::Launch { kernel, grid, params, checks, .. } => {
            let kernel: &dyn Any = &***kernel;
            Some((kernel.downcast_ref::<Loaded>()?, *grid, &words[params.clone()], *checks))
        }
        Asked::Product { .. } => None,
    }
}

fn record(device: &Device, asked: &[Asked<'_>], words: &[u64]) -> Result<Graph, driver::Error> {
    let work: Vec<Work<'_>> = asked
        .iter()
        .filter_map(|one| match one {
            Asked::Launch { .. } => {
                let (loaded, grid, params, _) = launch(one, words)?;
                Some(Work::Launch { kernel: &loaded.kernel, grid, params, status: loaded.unused })
            }
            Asked::Product { gemm, at } => Some(Work::Product { gemm, at: *at }),
        })
        .collect();
    // SAFETY: the device's thread has entered the device; nothing is run here.
    unsafe { device.record(&work) }
}

impl Replays {
    /// Which graph fits; recorded now if need be.
    fn find(&mut self, device: &Device, asked: &[Asked<'_>], words: &[u64]) -> Option<usize> {
        let products: Vec<At> =
            asked.iter().filter_map(|one| if let Asked::Product { at, .. } = one { Some(*at) } else { None }).collect();
        let launches = asked.len() - products.len();
        let fits = |v: &Variant| v.products == products && v.graph.kernels() == launches;
        if let Some(known) = self.variants.iter().position(fits) {
            return Some(known);
        }
        let at = self.recorded as usize % VARIANTS;
        self.recorded += 1;
        let Ok(graph) = record(device, asked, words) else {
            // Whatever it is that can't be recorded, it can't be the next time either.
            self.recorded = TIRED;
            return None;
        };
        let variant = Variant { products, graph };
        match self.variants.get_mut(at) {
            Some(old) => *old = variant,
            None => self.variants.push(variant),
        }
        Some(at.min(self.variants.len() - 1))
    }
}

/// What is remembered of work that will come again for certain: it is recorded when it comes next.
pub(super) fn expect() -> Memory {
    Some(Box::new(Replays { runs: REPEATED, ..Replays::default() }))
}

/// Asks for work as a whole; nothing if it is to be asked for one by one.
///
/// # Safety
///
/// As for [`Engine::submit`](super::Engine::submit).
pub(super) unsafe fn submit(
    device: &Device,
    asked: &[Asked<'_>],
    words: &[u64],
    memory: &mut Memory,
) -> Option<Submitted> {
    if asked.len() < WORTH || !knobs::get().graphs {
        return None;
    }
    let replays = memory.get_or_insert_with(|| Box::new(Replays::default())).downcast_mut::<Replays>()?;
    replays.runs = replays.runs.saturating_add(1);
    if replays.runs <= REPEATED || replays.recorded >= TIRED {
        return None;
    }
    let at = replays.find(device, asked, words)?;
    let graph = &mut replays.variants[at].graph;
    let (mut open, mut number) = (Vec::new(), 0);
    for (at, one) in asked.iter().enumerate() {
        let Some((loaded, _, params, checks)) = launch(one, words) else { continue };
        let status = match checks {
            true => device.ticket().map(|(ticket, status)| {
                open.push((at, Ticket(ticket.0)));
                status
            }),
            false => Ok(loaded.unused),
        };
        if let Err(error) = status.and_then(|status| device.change(graph, number, params, status)) {
            return Some(Err((at, text(error))));
        }
        number += 1;
    }
    // SAFETY: as the caller promises.
    Some(unsafe { device.replay(graph) }.map(|()| open).map_err(|error| (0, text(error))))
}
