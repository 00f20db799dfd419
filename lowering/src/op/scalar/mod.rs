//! What a pointwise row computes, exactly, on bit patterns: the one definition behind the interpreter and constant
//! folding.  Elements are held in the low bits of a `u64`, the rest is zero.
//!
//! 16-bit floats are computed in f32 and rounded once; rows without an instruction are computed by their expansion, so
//! that they give the same bits before and after they are expanded.  A row whose result is a NaN gives the canonical
//! one, except for the rows that only move or flip bits; which NaN a program computes is not part of its meaning.

mod convert;
mod floats;
mod ints;

use super::pointwise::{Gives, Lower};
use super::{Expander, Pointwise, Term, math};
use crate::dtype::{Class, DType};

pub use convert::cast;

/// One element of a row's result: `from` is the type of the (last) operand, `to` that of the result.
pub fn eval(op: Pointwise, from: DType, to: DType, args: &[u64]) -> u64 {
    let args: Vec<&[u64]> = args.iter().map(std::slice::from_ref).collect();
    map(op, from, to, &args)[0]
}

/// A row on slices of one length: `from` is the type of the (last) operand, `to` that of the result.
pub fn map(op: Pointwise, from: DType, to: DType, args: &[&[u64]]) -> Vec<u64> {
    let row = op.row();
    match (op, row.lower) {
        (Pointwise::Cast, _) => args[0].iter().map(|&x| cast(from, to, x)).collect(),
        (Pointwise::Bitcast, _) => args[0].to_vec(),
        (Pointwise::Select, _) => {
            let (c, x, y) = (args[0], args[1], args[2]);
            c.iter().zip(x).zip(y).map(|((&c, &x), &y)| if c != 0 { x } else { y }).collect()
        }
        _ if from.compute() != from => {
            let wide: Vec<Vec<u64>> = args.iter().map(|a| each(a, |x| cast(from, from.compute(), x))).collect();
            let wide: Vec<&[u64]> = wide.iter().map(Vec::as_slice).collect();
            if row.gives == Gives::Bool {
                return map(op, from.compute(), to, &wide);
            }
            let result = match math::on_small_floats(op, from) {
                Some(expansion) => expand(expansion, from.compute(), &wide),
                None => map(op, from.compute(), from.compute(), &wide),
            };
            each(&result, |x| cast(from.compute(), from, x))
        }
        (_, Lower::Expand(expansion)) => expand(expansion, from, args),
        _ => match (from, from.class()) {
            (DType::F32, _) => floats::f32_row(op, args),
            (DType::F64, _) => floats::f64_row(op, args),
            (_, Class::Bool) => ints::bool_row(op, args),
            _ => ints::row(op, from, args),
        },
    }
}

/// `2^x` of an f32 as rounded once; 0 below the normal numbers.
pub fn exp2_approx(x: u64) -> u64 {
    let power = f64::from(f32::from_bits(x as u32)).exp2() as f32;
    (if power < f32::MIN_POSITIVE { 0.0 } else { power }).to_bits().into()
}

/// Whether two results are the same: equal bits, or NaNs both.
pub fn same(dtype: DType, a: u64, b: u64) -> bool {
    a == b || is_nan(dtype, a) && is_nan(dtype, b)
}

/// Whether the bits are a float's NaN.
pub fn is_nan(dtype: DType, bits: u64) -> bool {
    dtype.is_float() && f64::from_bits(cast(dtype, DType::F64, bits)).is_nan()
}

fn each(x: &[u64], f: impl Fn(u64) -> u64) -> Vec<u64> {
    x.iter().map(|&x| f(x)).collect()
}

/// Computes an expansion row by row; all operands are of type `from`.
pub fn expand(expansion: impl FnOnce(&mut dyn Expander, &[Term]) -> Term, from: DType, args: &[&[u64]]) -> Vec<u64> {
    let mut evaluator = Evaluator { values: Vec::new(), len: args[0].len() };
    let terms: Vec<Term> = args.iter().map(|a| evaluator.push(from, a.to_vec())).collect();
    let result = expansion(&mut evaluator, &terms);
    evaluator.values.swap_remove(result.0 as usize).1
}

/// Evaluates an expansion on slices.
struct Evaluator {
    values: Vec<(DType, Vec<u64>)>,
    len: usize,
}

impl Evaluator {
    fn push(&mut self, dtype: DType, bits: Vec<u64>) -> Term {
        self.values.push((dtype, bits));
        Term(self.values.len() as u32 - 1)
    }
}

impl Expander for Evaluator {
    fn row(&mut self, op: Pointwise, args: &[Term]) -> Term {
        let slices: Vec<&[u64]> = args.iter().map(|t| self.values[t.0 as usize].1.as_slice()).collect();
        let from = self.dtype(args[args.len() - 1]);
        let to = op.row().result(from).unwrap_or(from);
        let bits = map(op, from, to, &slices);
        self.push(to, bits)
    }

    fn convert(&mut self, op: Pointwise, arg: Term, to: DType) -> Term {
        let (from, bits) = &self.values[arg.0 as usize];
        let bits = map(op, *from, to, &[bits]);
        self.push(to, bits)
    }

    fn constant(&mut self, dtype: DType, bits: u64) -> Term {
        self.push(dtype, vec![bits; self.len])
    }

    fn exp2_approx(&mut self, x: Term) -> Term {
        let bits = each(&self.values[x.0 as usize].1, exp2_approx);
        self.push(DType::F32, bits)
    }

    fn dtype(&self, term: Term) -> DType {
        self.values[term.0 as usize].0
    }
}

#[cfg(test)]
mod tests;
