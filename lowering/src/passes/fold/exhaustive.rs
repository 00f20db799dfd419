//! Every row with every kind of operand that a rule looks for, before and after folding, on elements at the edges of
//! their types.

use crate::dtype::DType;
use crate::op::pointwise::{Gives, TABLE};
use crate::op::{Pointwise, scalar};
use crate::target::interp::{Arg, launch};
use crate::tile::{Builder, Program, Value};

const N: usize = 32;

/// Elements of a type: small ones, those at the edges, and special floats.
fn elements(dtype: DType) -> Vec<u64> {
    let mut random = crate::tile::arbitrary::Random::new(dtype as u64);
    let specials: &[f64] =
        &[0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 2.5, 300.0, -300.0, 1e-40, 65520.0, 1e20, f64::INFINITY, f64::NAN];
    let special = |x: &f64| scalar::cast(DType::F64, dtype, x.to_bits());
    let mut out: Vec<u64> = specials.iter().map(special).collect();
    out.resize_with(N, || random.element(dtype));
    out
}

/// A program that loads a tile of a type, computes something, and stores it.
fn program(dtype: DType, rows: impl FnOnce(&mut Builder, Value) -> Value) -> Program {
    let mut b = Builder::new("rows");
    let at = b.arange(N as u32);
    let param = b.buffer(dtype, false);
    let loaded = b.load(param, at);
    let result = rows(&mut b, loaded);
    let out = b.buffer(b.ty(result).dtype, true);
    b.store(out, at, result, None);
    b.finish()
}

/// Runs a program before and after folding.
fn keeps(program: &Program, dtype: DType) {
    let mut folded = program.clone();
    (super::PASS.run)(&mut folded);
    let to = program.params.values().last().unwrap().dtype;
    let run = |program: &Program| -> Vec<u64> {
        let mut bytes: Vec<u8> =
            elements(dtype).iter().flat_map(|x| x.to_le_bytes().into_iter().take(dtype.bytes())).collect();
        let mut out = vec![0; N * to.bytes()];
        launch(program, [1; 3], &mut [Arg::Buffer(&mut bytes), Arg::Buffer(&mut out)])
            .unwrap_or_else(|fault| panic!("{fault}\n{program}"));
        out.chunks(to.bytes()).map(|c| c.iter().rev().fold(0, |w, &b| w << 8 | u64::from(b))).collect()
    };
    for ((x, want), got) in elements(dtype).into_iter().zip(run(program)).zip(run(&folded)) {
        assert!(scalar::same(to, want, got), "{dtype} {x:#x}: {want:#x} became {got:#x}\n{program}to\n{folded}");
    }
}

#[test]
fn rows_with_a_constant_and_with_equal_operands() {
    for row in TABLE.iter().filter(|r| r.arity == 2) {
        for &dtype in DType::ALL.iter().filter(|&&d| row.accepts(d)) {
            keeps(&program(dtype, |b, x| b.map(row.op, &[x, x])), dtype);
            let one = scalar::cast(DType::U8, dtype, 1);
            let sign = if dtype.is_float() { 1 << (dtype.bits() - 1) } else { 0 };
            let ones = if dtype == DType::Bool { 1 } else { dtype.mask() };
            for bits in [0, one, sign, one | sign, ones] {
                let with = |flip: bool| {
                    program(dtype, |b, x| {
                        let c = b.constant(dtype, bits);
                        b.map(row.op, if flip { [c, x] } else { [x, c] }.as_slice())
                    })
                };
                keeps(&with(false), dtype);
                keeps(&with(true), dtype);
            }
        }
    }
}

#[test]
fn one_row_after_another() {
    let unary: Vec<_> = TABLE.iter().filter(|r| r.arity == 1 && r.gives != Gives::Named && r.cost <= 4).collect();
    for &dtype in DType::ALL {
        for inner in unary.iter().filter(|r| r.accepts(dtype)) {
            let middle = inner.result(dtype).unwrap_or(dtype);
            for outer in unary.iter().filter(|r| r.accepts(middle)) {
                let both = program(dtype, |b, x| {
                    let y = b.map(inner.op, &[x]);
                    b.map(outer.op, &[y])
                });
                keeps(&both, dtype);
            }
        }
    }
}

#[test]
fn one_conversion_after_another() {
    for &from in DType::ALL {
        for &middle in DType::ALL {
            for &to in DType::ALL {
                let casts = program(from, |b, x| {
                    let y = b.cast(x, middle);
                    b.cast(y, to)
                });
                keeps(&casts, from);
                let same_width = from.bits() == middle.bits() && middle.bits() == to.bits();
                if same_width && ![from, middle, to].contains(&DType::Bool) {
                    let bitcasts = program(from, |b, x| {
                        let y = b.convert(Pointwise::Bitcast, x, middle);
                        b.convert(Pointwise::Bitcast, y, to)
                    });
                    keeps(&bitcasts, from);
                }
            }
        }
    }
}

#[test]
fn quotients_of_negated_dividends() {
    for &dtype in DType::ALL.iter().filter(|d| d.is_float()) {
        for bits in elements(dtype) {
            let quotient = program(dtype, |b, x| {
                let (negated, by) = (b.map(Pointwise::Neg, &[x]), b.constant(dtype, bits));
                b.map(Pointwise::Div, &[negated, by])
            });
            keeps(&quotient, dtype);
        }
    }
}
