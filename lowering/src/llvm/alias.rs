//! Says that different buffers don't overlap.

use inkwell::values::{BasicMetadataValueEnum, InstructionValue, MetadataValue};

use super::ir::Ir;
use crate::tile::{Param, Program};

/// One scope per parameter; an access lies in its own and aliases none of the others.  Scopes named by strings are equal
/// where their names are, so no two kernels may share a domain: each module holds one kernel.
pub struct Scopes<'c> {
    /// For each parameter, `alias.scope` and `noalias`.
    sets: Vec<[MetadataValue<'c>; 2]>,
    kinds: [u32; 2],
}

impl<'c> Scopes<'c> {
    /// The scopes of a program's parameters.
    pub fn new(ir: &Ir<'c>, program: &Program) -> Scopes<'c> {
        let c = ir.context;
        let node = |values: &[MetadataValue<'c>]| {
            let values: Vec<BasicMetadataValueEnum> = values.iter().map(|&v| v.into()).collect();
            c.metadata_node(&values)
        };
        let domain = node(&[c.metadata_string("buffers")]);
        let scope: Vec<_> = program.params.keys().map(|p| node(&[c.metadata_string(&p.to_string()), domain])).collect();
        let sets = (0..scope.len()).map(|i| {
            let others: Vec<_> = scope.iter().enumerate().filter(|&(j, _)| j != i).map(|(_, &s)| s).collect();
            [node(&[scope[i]]), node(&others)]
        });
        Scopes { sets: sets.collect(), kinds: [c.get_kind_id("alias.scope"), c.get_kind_id("noalias")] }
    }

    /// Marks an access to a buffer.
    pub fn tag(&self, inst: Option<InstructionValue<'c>>, param: Param) {
        let Some(inst) = inst else { return };
        for (&set, &kind) in self.sets[param.as_u32() as usize].iter().zip(&self.kinds) {
            let _ = inst.set_metadata(set, kind);
        }
    }
}
