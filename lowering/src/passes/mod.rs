//! The rewrites that make a tile program fit for code generation, on one page.
//!
//! Afterwards every pointwise row is native, every cast is one that machines have (see [`casts`]), and f16 and bf16 are
//! storage: f16 is loaded, stored, moved, selected and cast from and to f32; bf16 is loaded, stored, moved, selected,
//! cast from f32 and bitcast from and to 16-bit integers.  Both are operands of dots.  No pass changes a bit of what a program computes.

pub mod casts;
mod cse;
mod dce;
mod expand;
mod fold;
mod licm;
mod rewrite;
mod widen;

use crate::tile::{Program, verify};

/// A named rewrite.
#[derive(Clone, Copy)]
pub struct Pass {
    /// Name, for dumps.
    pub name: &'static str,
    /// Rewrites a valid program into a valid one.
    pub run: fn(&mut Program),
}

/// All rewrites, in order.  Folding comes before the casts are taken apart, where it still sees them, and after.
pub const PASSES: &[Pass] =
    &[fold::PASS, widen::PASS, expand::PASS, fold::PASS, casts::PASS, fold::PASS, cse::PASS, licm::PASS, dce::PASS];

/// Runs every pass; `see` is shown the program after each one.
pub fn run(program: &mut Program, see: &mut dyn FnMut(&'static str, &Program)) {
    for pass in PASSES {
        (pass.run)(program);
        debug_assert!(verify(program).is_empty(), "after `{}`: {}\n{program}", pass.name, verify(program)[0]);
        see(pass.name, program);
    }
}

#[cfg(test)]
mod tests;
