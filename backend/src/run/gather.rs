//! A plan's work, gathered before a part of it is asked for as a whole.  Until then nobody else may get the memory that it
//! names: what the plan frees stays here, and serves the rest of the plan.

use std::ops::Range;
use std::sync::Arc;

use kiln_lowering::schedule::{Arg, Gemm, Plan};

use super::engine::{At, Checked, Engine, Launch, Ticket};
use super::kernels::Kernel;
use super::memory::{Buffer, class};

/// One thing to ask for.
pub(super) enum Asked<'a> {
    /// A kernel.
    Launch {
        kernel: &'a Kernel,
        plan: &'a Plan,
        /// Numbers of program instances, none of them 0.
        grid: [u32; 3],
        args: &'a [Arg],
        /// Which of the gathered words are its arguments.
        params: Range<usize>,
        checks: bool,
    },
    /// A product by the library.
    Product { gemm: &'a Gemm, at: At },
}

/// Work with the numbers of the steps it is of, in order.
#[derive(Default)]
pub(super) struct Gather<'a> {
    pub(super) steps: Vec<usize>,
    pub(super) asked: Vec<Asked<'a>>,
    pub(super) words: Vec<u64>,
    spare: Vec<Arc<Buffer>>,
}

impl<'a> Gather<'a> {
    /// Adds the work of a step.
    pub(super) fn push(&mut self, step: usize, asked: Asked<'a>) {
        self.steps.push(step);
        self.asked.push(asked);
    }

    /// Keeps memory that the plan has no use for any more.
    pub(super) fn keep(&mut self, memory: Option<Arc<Buffer>>) {
        self.spare.extend(memory);
    }

    /// Memory for `bytes` that work before is done with when work after comes to it.
    pub(super) fn reuse(&mut self, bytes: usize) -> Option<Arc<Buffer>> {
        let size = class(bytes);
        let at = self.spare.iter_mut().rposition(|spare| spare.len() == size && Buffer::renew(spare))?;
        Some(self.spare.swap_remove(at))
    }

    /// Memory that the plan has no use for any more.
    pub(super) fn spare(&mut self) -> Vec<Arc<Buffer>> {
        std::mem::take(&mut self.spare)
    }

    /// Lets go of everything, once it was asked for.
    pub(super) fn clear(&mut self) {
        self.steps.clear();
        self.asked.clear();
        self.words.clear();
        self.spare.clear();
    }
}

/// Asks for one thing; gives its checks' answer, or ticket.
///
/// # Safety
///
/// As for [`Kernel::launch`](super::engine::Kernel::launch) and [`Engine::product`].
pub(super) unsafe fn ask(engine: &dyn Engine, asked: &Asked<'_>, words: &[u64]) -> Result<Checked, String> {
    match asked {
        Asked::Launch { kernel, plan, grid, args, params, checks } => {
            let launch = Launch { plan, grid: *grid, args, params: &words[params.clone()], checks: *checks };
            // SAFETY: as the caller promises.
            unsafe { kernel.launch(&launch) }
        }
        // SAFETY: as the caller promises.
        Asked::Product { gemm, at } => unsafe { engine.product(gemm, *at) }.map(|()| Checked::Now(0)),
    }
}

/// The checks of what was asked for: positions in the list, and tickets; or which one could not be asked for, and why.
pub(super) type Submitted = Result<Vec<(usize, Ticket)>, (usize, String)>;

/// Asks for one thing after another.
///
/// # Safety
///
/// As for [`ask`].
pub(super) unsafe fn ask_each(engine: &dyn Engine, asked: &[Asked<'_>], words: &[u64]) -> Submitted {
    let mut open = Vec::new();
    for (at, one) in asked.iter().enumerate() {
        // SAFETY: as the caller promises.
        match unsafe { ask(engine, one, words) } {
            Ok(Checked::Later(ticket)) => open.push((at, ticket)),
            Ok(Checked::Now(0)) => {}
            Ok(Checked::Now(code)) => return Err((at, format!("check {code} failed"))),
            Err(message) => return Err((at, message)),
        }
    }
    Ok(open)
}
