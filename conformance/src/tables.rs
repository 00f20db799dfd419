//! Cases by table: every row on every type and kind of operand.

use kiln_lowering::DType;
use kiln_lowering::graph::arbitrary::{Case, Draws, Fill, fill, specials};
use kiln_lowering::graph::{Array, Graph, Node, Reduction, SliceDim};
use kiln_lowering::op::Pointwise;
use kiln_lowering::op::pointwise::Row;

/// What the operands of a row look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Every pair of special values, in one dense tensor.
    Specials,
    /// Slices with an offset and steps, some backwards.
    Strided,
    /// One operand repeated along each axis.
    Broadcast,
    /// No elements.
    Empty,
    /// One element, without axes.
    One,
    /// A length that is no multiple of anything.
    Odd,
}

impl Shape {
    /// Every kind of operand.
    pub const ALL: &[Shape] =
        &[Shape::Specials, Shape::Strided, Shape::Broadcast, Shape::Empty, Shape::One, Shape::Odd];
}

/// A case in the making.
#[derive(Default)]
struct Table {
    graph: Graph,
    inputs: Vec<Array>,
}

impl Table {
    fn input(&mut self, array: Array) -> Node {
        let node = self.graph.input(array.dtype, &array.dims);
        self.inputs.push(array);
        node
    }

    fn case(mut self, outputs: &[Node]) -> Case {
        self.graph.outputs = outputs.to_vec();
        Case { graph: self.graph, inputs: self.inputs, slots: Vec::new() }
    }
}

/// Type of operand `i` of a row on `dtype`.
fn operand(op: Pointwise, i: usize, dtype: DType) -> DType {
    if op == Pointwise::Select && i == 0 { DType::Bool } else { dtype }
}

/// All combinations of special values: operand `i` runs through its list `i` times as slowly as the first.
fn combinations(op: Pointwise, arity: usize, dtype: DType) -> Vec<Array> {
    let lists: Vec<Vec<u64>> = (0..arity).map(|i| specials(operand(op, i, dtype))).collect();
    let total: usize = lists.iter().map(Vec::len).product();
    let mut every = 1;
    lists
        .iter()
        .enumerate()
        .map(|(i, list)| {
            let slow = every;
            every *= list.len();
            Array::from_fn(operand(op, i, dtype), &[total as u64], |at| list[at / slow % list.len()])
        })
        .collect()
}

/// The operands of `row` as nodes.
fn operands(t: &mut Table, row: &Row, dtype: DType, shape: Shape, draws: &mut Draws) -> Vec<Node> {
    if shape == Shape::Specials {
        return combinations(row.op, row.arity, dtype).into_iter().map(|a| t.input(a)).collect();
    }
    let dims: &[u64] = match shape {
        Shape::Empty => &[3, 0],
        Shape::One => &[],
        Shape::Odd => &[1031],
        _ => &[5, 67],
    };
    (0..row.arity)
        .map(|i| {
            let of = operand(row.op, i, dtype);
            match shape {
                Shape::Strided => {
                    let x = t.input(fill(draws, of, &[9, 140], Fill::Special));
                    let rows = SliceDim { start: 8, len: 5, step: -2 };
                    let columns = if i == 0 {
                        SliceDim { start: 1, len: 67, step: 2 }
                    } else {
                        SliceDim { start: 139, len: 67, step: -1 }
                    };
                    t.graph.slice(x, &[rows, columns])
                }
                Shape::Broadcast => {
                    let from: &[u64] = [&[5, 67][..], &[67], &[5, 1]][i % 3];
                    let from = if row.arity == 1 { &[1, 67] } else { from };
                    let x = t.input(fill(draws, of, from, Fill::Special));
                    t.graph.expand(x, dims)
                }
                _ => t.input(fill(draws, of, dims, Fill::Special)),
            }
        })
        .collect()
}

/// A pointwise row on a type; nothing where the row does not take it.  Conversions go to every type.
pub fn pointwise(op: Pointwise, dtype: DType, shape: Shape) -> Option<Case> {
    let row = op.row();
    if !row.accepts(dtype) {
        return None;
    }
    let mut t = Table::default();
    let mut draws = Draws::new(op as u64 * 100 + dtype as u64);
    let args = operands(&mut t, row, dtype, shape, &mut draws);
    let outputs: Vec<Node> = match row.result(dtype) {
        Some(_) => vec![t.graph.map(op, &args)],
        None => {
            let to = DType::ALL.iter().copied().filter(|&to| to != dtype);
            let fits = |to: &DType| {
                op == Pointwise::Cast || to.bits() == dtype.bits() && *to != DType::Bool && dtype != DType::Bool
            };
            to.filter(fits).map(|to| t.graph.convert(op, args[0], to)).collect()
        }
    };
    Some(t.case(&outputs)).filter(|case| !case.graph.outputs.is_empty())
}

/// Every pointwise row on every type and kind of operand, with names.
pub fn every_pointwise() -> Vec<(String, Case)> {
    let mut cases = Vec::new();
    for &op in Pointwise::ALL {
        for &dtype in DType::ALL {
            for &shape in Shape::ALL {
                let name = format!("{} {dtype} {shape:?}", op.row().name);
                cases.extend(pointwise(op, dtype, shape).map(|case| (name, case)));
            }
        }
    }
    cases
}

/// Lengths of rows that are reduced: around powers of two, short and long.
pub const LENGTHS: &[u64] = &[0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 64, 127, 257, 1023, 1024, 1025];

/// Every reduction and scan on every type and these lengths, with names.
pub fn every_reduction(lengths: &[u64]) -> Vec<(String, Case)> {
    let mut cases = Vec::new();
    for &kind in Reduction::ALL {
        for &dtype in DType::ALL {
            for &len in lengths {
                for with in [Fill::Ordinary, Fill::Special] {
                    let name = format!("{} {dtype} {len} {with:?}", kind.name());
                    cases.extend(reduction(kind, dtype, len, with).map(|case| (name, case)));
                }
            }
        }
    }
    cases
}

/// Types that a reduction takes.
pub fn reduces(kind: Reduction, dtype: DType) -> bool {
    matches!(kind, Reduction::Any | Reduction::All) == (dtype == DType::Bool)
}

/// Whether a reduction over nothing has a value.
pub fn has_identity(kind: Reduction) -> bool {
    matches!(kind, Reduction::Sum | Reduction::Prod | Reduction::Any | Reduction::All)
}

/// Three rows of `len`, reduced along them, along columns, along both, and scanned.
pub fn reduction(kind: Reduction, dtype: DType, len: u64, with: Fill) -> Option<Case> {
    if !reduces(kind, dtype) || len == 0 && !has_identity(kind) {
        return None;
    }
    let mut t = Table::default();
    let mut draws = Draws::new(len * 1000 + kind as u64 * 20 + dtype as u64);
    let rows = t.input(fill(&mut draws, dtype, &[3, len], with));
    let columns = t.input(fill(&mut draws, dtype, &[len, 5], with));
    let to = if kind.is_arg() { DType::I64 } else { dtype };
    let mut outputs = vec![
        t.graph.reduce(kind, rows, &[1], to),
        t.graph.reduce(kind, columns, &[0], to),
        t.graph.reduce(kind, columns, &[0, 1], to),
    ];
    if !kind.is_arg() {
        outputs.extend([t.graph.scan(kind, rows, 1), t.graph.scan(kind, columns, 0)]);
    }
    Some(t.case(&outputs))
}

/// One row of the given elements, reduced.
pub fn reduced_row(kind: Reduction, row: Array) -> Case {
    let mut t = Table::default();
    let to = if kind.is_arg() { DType::I64 } else { row.dtype };
    let x = t.input(row);
    let out = t.graph.reduce(kind, x, &[0], to);
    t.case(&[out])
}

/// A cast of these elements.
pub fn cast(from: Array, to: DType) -> Case {
    let mut t = Table::default();
    let x = t.input(from);
    let out = t.graph.cast(x, to);
    t.case(&[out])
}
