//! Tiles taken apart into their columns, and put together again: what has an order of its own along an axis takes them one
//! by one.

use crate::tile::{Builder, Op, Type, Value};

/// The columns of a tile with two axes, from the first.
pub fn columns(b: &mut Builder, x: Value) -> Vec<Value> {
    let Type { dtype, shape } = b.ty(x).clone();
    if shape[1] == 1 {
        return vec![b.reshape(x, &[shape[0]])];
    }
    let pairs = b.reshape(x, &[shape[0], shape[1] / 2, 2]);
    let half = Type::tile(dtype, &[shape[0], shape[1] / 2]);
    let halves = b.push(Op::Split, &[pairs], &[half.clone(), half]);
    let [even, odd] = [0, 1].map(|i| columns(b, halves[i]));
    even.into_iter().zip(odd).flat_map(|(x, y)| [x, y]).collect()
}

/// Likewise, by halves of what is left: lanes along the columns leave them at once and together.
pub fn columns_by_halves(b: &mut Builder, x: Value) -> Vec<Value> {
    let Type { dtype, shape } = b.ty(x).clone();
    if shape[1] == 1 {
        return columns(b, x);
    }
    let apart = b.reshape(x, &[shape[0], 2, shape[1] / 2]);
    let apart = b.trans(apart, &[0, 2, 1]);
    let half = Type::tile(dtype, &[shape[0], shape[1] / 2]);
    let halves = b.push(Op::Split, &[apart], &[half.clone(), half]);
    [0, 1].into_iter().flat_map(|i| columns_by_halves(b, halves[i])).collect()
}

/// A tile of these columns.
pub fn side_by_side(b: &mut Builder, columns: &[Value]) -> Value {
    let Type { dtype, shape } = b.ty(columns[0]).clone();
    let (rows, count) = (shape[0], columns.len() as u32);
    if count == 1 {
        return b.reshape(columns[0], &[rows, 1]);
    }
    let every_other = |from: usize| columns.iter().copied().skip(from).step_by(2).collect::<Vec<_>>();
    let [even, odd] = [0, 1].map(|from| side_by_side(b, &every_other(from)));
    let pairs = b.push(Op::Join, &[even, odd], &[Type::tile(dtype, &[rows, count / 2, 2])])[0];
    b.reshape(pairs, &[rows, count])
}
