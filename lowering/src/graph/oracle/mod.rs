//! What a graph means: its nodes evaluated one by one on dense arrays, each by its definition.
//!
//! Floats are computed in f64 and rounded once to the node's type; sums are compensated, so that they are as good as
//! exact.  Integers are computed in i128 and wrapped.  Speed is of no concern, nor is what any target does.

mod combine;
mod index;
mod movement;
pub mod order;

use super::array::{Array, coordinates};
use super::ir::{Dist, Graph, Node, NodeData, Op};
use super::{number, random};
use crate::dtype::DType;
use crate::op::Pointwise;
use crate::op::pointwise::Oracle;

/// An index that a gather or scatter cannot follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{node}: index {index} is out of range for an axis of extent {extent} (element {element})")]
pub struct OutOfRange {
    /// The gather or scatter.
    pub node: Node,
    /// Row-major index, within the indices, of the first bad one.
    pub element: usize,
    /// That index.
    pub index: i128,
    /// The extent that it should be below.
    pub extent: u64,
}

/// The values of all nodes, in order.  `slots` are bit patterns.  The graph must be valid, see [`super::verify()`].
pub fn evaluate(graph: &Graph, inputs: &[Array], slots: &[u64]) -> Result<Vec<Array>, OutOfRange> {
    let mut values: Vec<Array> = Vec::with_capacity(graph.nodes.len());
    for (node, data) in &graph.nodes {
        let args: Vec<&Array> = data.args.iter().map(|a| &values[a.as_u32() as usize]).collect();
        let value = step(node, data, &args, inputs, slots)?;
        values.push(value);
    }
    Ok(values)
}

/// The values of the outputs.
pub fn run(graph: &Graph, inputs: &[Array], slots: &[u64]) -> Result<Vec<Array>, OutOfRange> {
    let values = evaluate(graph, inputs, slots)?;
    Ok(graph.outputs.iter().map(|n| values[n.as_u32() as usize].clone()).collect())
}

/// The value of one node from those of its operands.
pub fn step(
    node: Node,
    data: &NodeData,
    args: &[&Array],
    inputs: &[Array],
    slots: &[u64],
) -> Result<Array, OutOfRange> {
    let (dtype, dims) = (data.dtype, data.dims.as_slice());
    let fill = |bits| Array::from_fn(dtype, dims, |_| bits);
    Ok(match &data.op {
        Op::Input(number) => inputs[*number as usize].clone(),
        Op::Constant(bits) => fill(*bits),
        Op::Scalar(slot) => fill(slots[slot.as_u32() as usize]),
        Op::Iota(axis) => {
            let along = coordinates(dims).map(|c| number::from_int(dtype, i128::from(c[*axis as usize])));
            Array::new(dtype, dims, along.collect())
        }
        Op::Map(op) => Array::from_fn(dtype, dims, |i| {
            let operands: Vec<(DType, u64)> = args.iter().map(|a| (a.dtype, a.bits[i])).collect();
            pointwise(*op, &operands, dtype)
        }),
        Op::Move(movement) => movement::apply(movement, args[0], dtype, dims),
        Op::Reduce(kind, axes) => combine::reduce(*kind, axes, args[0], dtype, dims),
        Op::Scan(kind, axis) => combine::scan(*kind, *axis as usize, args[0]),
        Op::Contract => combine::contract(args[0], args[1], dims),
        Op::Gather(index, axis) => index::gather(node, *index, *axis as usize, args[0], args[1], dims)?,
        Op::Scatter(index, axis, update) => {
            index::scatter(node, *index, *axis as usize, *update, args[0], args[1], args[2])?
        }
        Op::Random(dist, key, counter) => {
            let (seed, start) = (slots[key.as_u32() as usize], slots[counter.as_u32() as usize]);
            Array::from_fn(dtype, dims, |i| {
                let words = random::words(seed, start, i as u64);
                match dist {
                    Dist::Bits => random::bits(dtype, words),
                    Dist::Uniform => number::from_f64(dtype, random::uniform(dtype, words)),
                    Dist::Normal => number::from_f64(dtype, random::normal(dtype, words)),
                }
            })
        }
        Op::Sort { axis, descending } => order::sort(args[0], *axis as usize, dims[*axis as usize], *descending),
        Op::ArgSort { axis, descending } => {
            order::argsort(args[0], *axis as usize, dims[*axis as usize], *descending, dtype)
        }
    })
}

/// One element of a pointwise row: operands with their types, and the type of the result.
pub fn pointwise(op: Pointwise, args: &[(DType, u64)], to: DType) -> u64 {
    let from = args[args.len() - 1].0;
    let on_floats = |f: fn(&[f64]) -> f64| {
        let wide: Vec<f64> = args.iter().map(|&(d, bits)| number::to_f64(d, bits)).collect();
        number::from_f64(to, f(&wide))
    };
    let on_ints = |f: fn(&[i128], DType) -> i128| {
        let wide: Vec<i128> = args.iter().map(|&(d, bits)| number::to_int(d, bits)).collect();
        number::from_int(to, f(&wide, from))
    };
    match op.row().oracle {
        // A choice between patterns, which a NaN survives unchanged.
        _ if op == Pointwise::Select => args[if args[0].1 != 0 { 1 } else { 2 }].1,
        Oracle::Conversion if op == Pointwise::Bitcast => args[0].1,
        Oracle::Conversion => number::convert(from, args[0].1, to),
        Oracle::Float(f) => on_floats(f),
        Oracle::Int(f) => on_ints(f),
        Oracle::Both(f, _) if from.is_float() => on_floats(f),
        Oracle::Both(_, f) => on_ints(f),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The smallest graph around one row.
    fn unary(op: Pointwise, dtype: DType, bits: u64) -> u64 {
        pointwise(op, &[(dtype, bits)], op.row().result(dtype).unwrap_or(dtype))
    }

    #[test]
    fn rows_round_once_to_their_type() {
        assert_eq!(unary(Pointwise::Neg, DType::I8, 0x80), 0x80);
        assert_eq!(unary(Pointwise::Not, DType::Bool, 1), 0);
        assert_eq!(unary(Pointwise::Not, DType::U8, 1), 0xfe);
        let third = pointwise(Pointwise::Div, &[(DType::F32, 0x3f80_0000), (DType::F32, 0x4040_0000)], DType::F32);
        assert_eq!(third, u64::from((1f32 / 3.0).to_bits()));
        let least = (DType::I64, 1u64 << 63);
        assert_eq!(pointwise(Pointwise::Div, &[least, (DType::I64, u64::MAX)], DType::I64), 1 << 63);
        assert_eq!(pointwise(Pointwise::Rem, &[least, (DType::I64, u64::MAX)], DType::I64), 0);
        let wide = (DType::U64, u64::MAX);
        assert_eq!(pointwise(Pointwise::MulHi, &[wide, wide], DType::U64), u64::MAX - 1);
    }

    #[test]
    fn a_node_sees_its_operands_as_rounded() {
        let mut g = Graph::new();
        let x = g.input(DType::Bf16, &[1]);
        let one = g.constant(DType::Bf16, number::from_f64(DType::Bf16, 1.0), &[1]);
        let sum = g.map(Pointwise::Add, &[x, one]);
        let back = g.map(Pointwise::Sub, &[sum, one]);
        g.outputs = vec![back];
        let tiny = Array::from_floats(DType::Bf16, &[1], &[0.001]);
        assert_eq!(run(&g, &[tiny], &[]).unwrap()[0].floats(), [0.0]);
    }

    #[test]
    fn random_nodes_follow_their_slots() {
        let mut g = Graph::new();
        let (u, _, _) = g.random(Dist::Uniform, DType::F32, &[4]);
        g.outputs = vec![u];
        let from = |start| run(&g, &[], &[9, start]).unwrap()[0].bits.clone();
        assert_eq!(from(0)[1..], from(1)[..3]);
    }
}
