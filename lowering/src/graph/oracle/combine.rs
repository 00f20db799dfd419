//! Reductions, scans and products, each with one accumulator that is wide enough to need no order.

use crate::dtype::DType;
use crate::graph::array::{Array, coordinates, place};
use crate::graph::ir::Reduction;
use crate::graph::number;
use crate::op::Pointwise;
use crate::op::pointwise::Oracle;

/// A sum with the error of its additions carried along (Neumaier 1974): as good as exact for the lengths tested here.
#[derive(Clone, Copy, Default)]
pub struct Sum {
    total: f64,
    lost: f64,
}

impl Sum {
    /// Adds a number.
    pub fn add(&mut self, x: f64) {
        let total = self.total + x;
        self.lost += if self.total.abs() >= x.abs() { (self.total - total) + x } else { (x - total) + self.total };
        self.total = total;
    }

    /// Adds a product, exactly.
    pub fn add_product(&mut self, a: f64, b: f64) {
        let product = a * b;
        self.add(product);
        let error = a.mul_add(b, -product);
        if error.is_finite() {
            self.lost += error;
        }
    }

    /// The sum; infinite and NaN sums have no error to add.
    pub fn value(self) -> f64 {
        if self.total.is_finite() { self.total + self.lost } else { self.total }
    }
}

/// What has been combined so far.
enum State {
    Sum(Sum),
    Float(f64),
    Int(i128),
    /// Index and pattern of the best so far.
    Best(Option<(usize, u64)>),
}

/// One reduction in the making.
struct Fold {
    kind: Reduction,
    from: DType,
    state: State,
    seen: usize,
}

impl Fold {
    fn new(kind: Reduction, from: DType) -> Fold {
        let state = match kind {
            Reduction::Sum if from.is_float() => State::Sum(Sum::default()),
            Reduction::Prod if from.is_float() => State::Float(1.0),
            Reduction::Sum | Reduction::Any => State::Int(0),
            Reduction::Prod | Reduction::All => State::Int(1),
            Reduction::Max | Reduction::Min | Reduction::ArgMax | Reduction::ArgMin => State::Best(None),
        };
        Fold { kind, from, state, seen: 0 }
    }

    fn add(&mut self, bits: u64) {
        match &mut self.state {
            State::Sum(sum) => sum.add(number::to_f64(self.from, bits)),
            State::Float(product) => *product *= number::to_f64(self.from, bits),
            State::Int(total) => {
                let x = number::to_int(self.from, bits);
                let wide = match self.kind {
                    Reduction::Sum => total.wrapping_add(x),
                    Reduction::Prod => total.wrapping_mul(x),
                    Reduction::Any => *total | x,
                    _ => *total & x,
                };
                // Only the bits of the element matter, and they stay right when wrapped early.
                *total = number::to_int(self.from, number::from_int(self.from, wide));
            }
            State::Best(best) => {
                let replace = match *best {
                    None => true,
                    Some((_, old)) => self.kind.is_better(self.from, bits, old),
                };
                if replace {
                    *best = Some((self.seen, bits));
                }
            }
        }
        self.seen += 1;
    }

    fn value(&self, to: DType) -> u64 {
        match &self.state {
            State::Sum(sum) => number::from_f64(to, sum.value()),
            State::Float(product) => number::from_f64(to, *product),
            State::Int(total) => number::from_int(to, *total),
            State::Best(Some((at, bits))) => {
                if self.kind.is_arg() {
                    number::from_int(to, *at as i128)
                } else {
                    *bits
                }
            }
            // Nothing to choose from; a valid graph does not ask.
            State::Best(None) => 0,
        }
    }
}

impl Reduction {
    /// Whether `new` displaces the earlier `old`: a first NaN does, an equal does not.  For values, +0 is above −0; for
    /// indices they are equal.
    fn is_better(self, dtype: DType, new: u64, old: u64) -> bool {
        if !dtype.is_float() {
            let (new, old) = (number::to_int(dtype, new), number::to_int(dtype, old));
            return if self.is_greatest() { new > old } else { new < old };
        }
        let (n, o) = (number::to_f64(dtype, new), number::to_f64(dtype, old));
        let (n, o) = if self.is_greatest() { (n, o) } else { (-n, -o) };
        let zeros = !self.is_arg() && n == 0.0 && o == 0.0 && n.is_sign_positive() && o.is_sign_negative();
        !o.is_nan() && (n.is_nan() || n > o || zeros)
    }

    fn is_greatest(self) -> bool {
        matches!(self, Reduction::Max | Reduction::ArgMax)
    }
}

/// Combines along axes.
pub fn reduce(kind: Reduction, axes: &[u8], x: &Array, dtype: DType, dims: &[u64]) -> Array {
    let mut folds: Vec<Fold> = (0..dims.iter().product::<u64>()).map(|_| Fold::new(kind, x.dtype)).collect();
    for (c, &bits) in coordinates(&x.dims).zip(&x.bits) {
        let mut to = c;
        for &axis in axes {
            to[axis as usize] = 0;
        }
        folds[place(&to, dims)].add(bits);
    }
    Array::new(dtype, dims, folds.iter().map(|f| f.value(dtype)).collect())
}

/// Inclusive prefix along an axis.
pub fn scan(kind: Reduction, axis: usize, x: &Array) -> Array {
    let mut one = x.dims.clone();
    one[axis] = 1;
    let mut folds: Vec<Fold> = (0..one.iter().product::<u64>()).map(|_| Fold::new(kind, x.dtype)).collect();
    let prefixes = coordinates(&x.dims).zip(&x.bits).map(|(mut c, &bits)| {
        c[axis] = 0;
        let fold = &mut folds[place(&c, &one)];
        fold.add(bits);
        fold.value(x.dtype)
    });
    Array::new(x.dtype, &x.dims, prefixes.collect())
}

/// Batched matrix product.
pub fn contract(a: &Array, b: &Array, dims: &[u64]) -> Array {
    let (dtype, rank) = (a.dtype, dims.len());
    let k = a.dims[rank - 1] as usize;
    let (m, n) = (dims[rank - 2] as usize, dims[rank - 1] as usize);
    let (fa, fb) = (a.floats(), b.floats());
    Array::from_fn(dtype, dims, |at| {
        let (batch, row, column) = (at / (m * n), at / n % m, at % n);
        let pairs = (0..k).map(|i| ((batch * m + row) * k + i, (batch * k + i) * n + column));
        if dtype.is_float() {
            let mut sum = Sum::default();
            pairs.for_each(|(i, j)| sum.add_product(fa[i], fb[j]));
            number::from_f64(dtype, sum.value())
        } else {
            let total = pairs.fold(0i128, |sum, (i, j)| sum.wrapping_add(a.int(i).wrapping_mul(b.int(j))));
            number::from_int(dtype, total)
        }
    })
}

/// One element of a binary row, in its wide type.
pub fn binary(op: Pointwise, dtype: DType, a: u64, b: u64) -> u64 {
    match op.row().oracle {
        Oracle::Both(f, _) if dtype.is_float() => {
            number::from_f64(dtype, f(&[number::to_f64(dtype, a), number::to_f64(dtype, b)]))
        }
        Oracle::Both(_, f) | Oracle::Int(f) => {
            number::from_int(dtype, f(&[number::to_int(dtype, a), number::to_int(dtype, b)], dtype))
        }
        _ => a,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(kind: Reduction, x: &Array, dtype: DType) -> u64 {
        reduce(kind, &[0], x, dtype, &[1]).bits[0]
    }

    #[test]
    fn sums_do_not_lose_what_is_small() {
        let x = Array::from_floats(DType::F64, &[4], &[1.0, 1e100, 1.0, -1e100]);
        assert_eq!(f64::from_bits(whole(Reduction::Sum, &x, DType::F64)), 2.0);
        let x = Array::from_floats(DType::F64, &[3], &[1.0, f64::INFINITY, 1.0]);
        assert_eq!(f64::from_bits(whole(Reduction::Sum, &x, DType::F64)), f64::INFINITY);
        let empty = Array::from_floats(DType::F32, &[0], &[]);
        assert_eq!(whole(Reduction::Sum, &empty, DType::F32), 0);
        assert_eq!(whole(Reduction::Prod, &empty, DType::F32), 0x3f80_0000);
    }

    #[test]
    fn the_first_nan_wins_and_then_the_first_of_equals() {
        let x = Array::from_floats(DType::F32, &[5], &[1.0, 3.0, f64::NAN, 3.0, f64::NAN]);
        assert_eq!(whole(Reduction::ArgMax, &x, DType::I64), 2);
        assert_eq!(whole(Reduction::ArgMin, &x, DType::I64), 2);
        assert!(f32::from_bits(whole(Reduction::Min, &x, DType::F32) as u32).is_nan());
        let x = Array::from_floats(DType::F32, &[3], &[-0.0, 0.0, -0.0]);
        assert_eq!(whole(Reduction::ArgMax, &x, DType::I64), 0);
        assert_eq!(whole(Reduction::Max, &x, DType::F32), 0);
        assert_eq!(whole(Reduction::Min, &x, DType::F32), 0x8000_0000);
    }

    #[test]
    fn products_of_integers_wrap() {
        let a = Array::from_ints(DType::I8, &[1, 2], &[100, 100]);
        let b = Array::from_ints(DType::I8, &[2, 1], &[2, 1]);
        assert_eq!(contract(&a, &b, &[1, 1]).ints(), [300 - 256]);
    }

    #[test]
    fn scans_keep_each_prefix() {
        let x = Array::from_ints(DType::I32, &[2, 2], &[1, 2, 3, 4]);
        assert_eq!(scan(Reduction::Sum, 0, &x).ints(), [1, 2, 4, 6]);
        assert_eq!(scan(Reduction::Sum, 1, &x).ints(), [1, 3, 3, 7]);
    }
}
