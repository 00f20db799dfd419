//! Takes casts apart that machines have no exact instruction for.
//!
//! Left are f32 ↔ f64, f16 ↔ f32, f32 → bf16, integer ↔ integer, and integer ↔ f32 or f64 (from floats: saturating, NaN
//! gives 0).  A conversion that goes through an
//! intermediate type rounds once nevertheless: the intermediate is exact, or rounded to odd, which leaves the last
//! rounding everything it needs (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).

use smallvec::smallvec;

use super::Pass;
use super::rewrite::{Replacement, Rewriter, rewrite, term, value};
use crate::dtype::DType::{self, *};
use crate::op::{Expander, Pointwise, Term};
use crate::tile::{Inst, Op, Program};

/// Leaves native casts only.
pub(super) const PASS: Pass = Pass { name: "casts", run: lower_casts };

fn lower_casts(program: &mut Program) {
    rewrite(program, &mut |rewriter: &mut Rewriter<'_>, inst: Inst| -> Option<Replacement> {
        let data = &rewriter.program.insts[inst];
        let (x, result) = (*data.args.first()?, *data.results.first()?);
        if data.op != Op::Map(Pointwise::Cast) || is_native(rewriter.ty(x).dtype, rewriter.ty(result).dtype) {
            return None;
        }
        let to = rewriter.ty(result).clone();
        let result = lower(&mut rewriter.on(to.shape), term(x), to.dtype);
        Some(smallvec![value(result)])
    });
}

/// Whether machines have this conversion.
pub fn is_native(from: DType, to: DType) -> bool {
    let wide = |d: DType| d.is_int() || d == F32 || d == F64;
    from != to && (wide(from) && wide(to) || matches!((from, to), (F16, F32) | (F32, F16 | Bf16)))
}

/// A cast in native casts and other rows.
fn lower(e: &mut dyn Expander, x: Term, to: DType) -> Term {
    let from = e.dtype(x);
    match (from, to) {
        _ if from == to => x,
        _ if is_native(from, to) => e.cast(x, to),
        (Bool, _) => {
            let (one, zero) = (number(e, to, 1), number(e, to, 0));
            e.select(x, one, zero)
        }
        (Bf16, F32) => {
            let bits = e.bitcast(x, U16);
            let bits = e.cast(bits, U32);
            let sixteen = e.int(U32, 16);
            let bits = e.row(Pointwise::Shl, &[bits, sixteen]);
            e.bitcast(bits, F32)
        }
        (F16 | Bf16, _) => via(e, x, F32, to),
        (_, Bool) => {
            let zero = number(e, from, 0);
            e.row(Pointwise::Ne, &[x, zero])
        }
        (F64, _) => {
            let odd = to_odd(e, x);
            lower(e, odd, to)
        }
        // Exact in f32, whose significand has 24 bits.
        (I8 | I16 | U8 | U16, _) => via(e, x, F32, to),
        // Beyond 65,520 every number is an infinity, and up to 2¹⁷ all integers are exact in f32.
        (_, F16) => {
            let top = e.int(from, 1 << 17);
            let x = e.row(Pointwise::Min, &[x, top]);
            if !from.is_signed() {
                return via(e, x, F32, F16);
            }
            let bottom = e.int(from, -1 << 17);
            let x = e.row(Pointwise::Max, &[x, bottom]);
            via(e, x, F32, F16)
        }
        (I32 | U32, _) => via(e, x, F64, to),
        _ => {
            let x = gather_low_bits(e, x);
            via(e, x, F64, to)
        }
    }
}

/// Casts to `middle` on the way; the caller knows that this is exact.
fn via(e: &mut dyn Expander, x: Term, middle: DType, to: DType) -> Term {
    let x = lower(e, x, middle);
    lower(e, x, to)
}

/// 0 or 1 in any type.
fn number(e: &mut dyn Expander, dtype: DType, value: u64) -> Term {
    let bits = crate::op::scalar::cast(U8, dtype, value);
    e.constant(dtype, bits)
}

/// f64 to f32 rounded to odd: towards zero, and the last bit is set if that is inexact.
fn to_odd(e: &mut dyn Expander, x: Term) -> Term {
    let nearest = e.cast(x, F32);
    let back = e.cast(nearest, F64);
    let (size, back_size) = (e.row(Pointwise::Abs, &[x]), e.row(Pointwise::Abs, &[back]));
    let above = e.row(Pointwise::Gt, &[back_size, size]);
    let below = e.row(Pointwise::Lt, &[back_size, size]);
    let (one, zero) = (e.int(I32, 1), e.int(I32, 0));
    let bits = e.bitcast(nearest, I32);
    // One step towards zero in sign and magnitude, whatever the sign; from infinity to the greatest number.
    let step = e.select(above, one, zero);
    let bits = e.sub(bits, step);
    let inexact = e.row(Pointwise::Or, &[above, below]);
    let last = e.select(inexact, one, zero);
    let bits = e.row(Pointwise::Or, &[bits, last]);
    e.bitcast(bits, F32)
}

/// A 64-bit integer that f64 holds exactly and that rounds to bf16 as `x` does.  Beyond 2⁵² the boundaries between bf16
/// roundings are multiples of 2³¹, so the low 31 bits matter only as zero or not: any others become 2³⁰.
fn gather_low_bits(e: &mut dyn Expander, x: Term) -> Term {
    let dtype = e.dtype(x);
    let (low, high) = (e.int(dtype, (1 << 31) - 1), e.int(dtype, -1 << 31));
    let (middle, zero) = (e.int(dtype, 1 << 30), e.int(dtype, 0));
    let rest = e.row(Pointwise::And, &[x, low]);
    let gathered = e.row(Pointwise::And, &[x, high]);
    let gathered = e.row(Pointwise::Or, &[gathered, middle]);
    let inexact = e.row(Pointwise::Ne, &[rest, zero]);
    let top = e.int(dtype, 1 << 52);
    let mut large = e.row(Pointwise::Gt, &[x, top]);
    if dtype.is_signed() {
        let bottom = e.int(dtype, -1 << 52);
        let negative = e.row(Pointwise::Lt, &[x, bottom]);
        large = e.row(Pointwise::Or, &[large, negative]);
    }
    let replace = e.row(Pointwise::And, &[large, inexact]);
    e.select(replace, gathered, x)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::op::scalar;
    use crate::passes::tests::check;

    fn agrees(from: DType, to: DType, bits: &[u64]) {
        let mut found = Vec::new();
        let got = scalar::expand(|e, x| lower(e, x[0], to), from, &[bits]);
        for (&x, &got) in bits.iter().zip(&got) {
            let want = scalar::cast(from, to, x);
            if !scalar::same(to, got, want) {
                found.push(format!("{from} {x:#x} to {to}: {got:#x}, not {want:#x}"));
            }
        }
        assert!(found.is_empty(), "{} wrong, first: {}", found.len(), found[0]);
    }

    /// Numbers near every power of two and every rounding boundary of the small floats.
    fn samples(dtype: DType) -> Vec<u64> {
        if dtype.bits() <= 16 {
            return if dtype == Bool { vec![0, 1] } else { (0..=dtype.mask()).collect() };
        }
        let mut out = Vec::new();
        if dtype.is_float() {
            for small in [F16, Bf16] {
                for code in 0..=0xffff {
                    let at = scalar::cast(small, dtype, code);
                    // The boundary halfway to the next code, and its neighbours on both sides.
                    let next = scalar::cast(small, dtype, code ^ 1);
                    let half = at / 2 + next / 2 + (at & next & 1);
                    out.extend(
                        [-1i64, 0, 1].iter().flat_map(|d| [at, half].map(|x| x.wrapping_add_signed(*d) & dtype.mask())),
                    );
                }
            }
        } else {
            for i in 0..dtype.bits() {
                for j in 0..dtype.bits() {
                    for k in [0u64, 1, 0x40, 0x8000, 1 << 30] {
                        let x = (1u64 << i).wrapping_add(1 << j).wrapping_add(k);
                        out.extend([x, x.wrapping_sub(1), x.wrapping_neg(), !x].map(|x| x & dtype.mask()));
                    }
                }
            }
        }
        out
    }

    #[test]
    fn every_cast_keeps_its_meaning() {
        for &from in DType::ALL {
            let bits = samples(from);
            for &to in DType::ALL {
                agrees(from, to, &bits);
            }
        }
    }

    #[test]
    fn a_bfloat_sum() {
        check(
            PASS,
            "%0: 8xbf16 = constant 1\n%1: 8xf32 = cast %0\n%2: 8xbool = cast %1\n%3: 8xf16 = cast %2\n%4: 8xbf16 = cast %1",
            expect![[r#"
                %0: 8xbf16 = constant 1.0
                %1: 8xu16 = bitcast %0
                %2: 8xu32 = cast %1
                %3: 8xu32 = constant 16
                %4: 8xu32 = shl %2, %3
                %5: 8xf32 = bitcast %4
                %6: 8xf32 = constant 0.0
                %7: 8xbool = ne %5, %6
                %8: 8xf16 = constant 1.0
                %9: 8xf16 = constant 0.0
                %10: 8xf16 = select %7, %8, %9
                %11: 8xbf16 = cast %5
            "#]],
        );
    }
}
