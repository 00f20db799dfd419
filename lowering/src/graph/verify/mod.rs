//! Lists every broken rule of a graph.  Repeats the inference of extents instead of trusting the builder, in arithmetic
//! that cannot overflow.

mod movement;
mod rule;

pub use rule::{MAX_ELEMENTS, MAX_RANK, Rule, Violation};

use smallvec::SmallVec;

use super::ir::{Dims, Dist, Graph, Index, Node, NodeData, Op, Reduction, Slot, Update};
use super::number;
use crate::dtype::{Class, DType};
use crate::op::Pointwise;
use crate::op::pointwise::{Gives, Takes};

/// Every rule that the graph breaks, in the order of its text; empty for a valid graph.
pub fn verify(graph: &Graph) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut seen = Vec::new();
    for (node, data) in &graph.nodes {
        let mut check = Check { graph, data, args: SmallVec::new(), found: Vec::new() };
        check.node(node, &mut seen);
        let at = || format!("{node}: {data}");
        found.extend(check.found.into_iter().map(|rule| Violation { node: Some(node), at: at(), rule }));
    }
    for (index, &got) in graph.outputs.iter().enumerate() {
        if graph.nodes.get(got).is_none() {
            found.push(Violation { node: None, at: "outputs".into(), rule: Rule::NoOutput { index, got } });
        }
    }
    found
}

/// The check of one node.
struct Check<'g> {
    graph: &'g Graph,
    data: &'g NodeData,
    args: SmallVec<[&'g NodeData; 3]>,
    found: Vec<Rule>,
}

impl Check<'_> {
    fn node(&mut self, node: Node, inputs: &mut Vec<u32>) {
        self.size();
        for (index, &got) in self.data.args.iter().enumerate() {
            match self.graph.nodes.get(got) {
                Some(data) if got < node => self.args.push(data),
                _ => self.found.push(Rule::Undefined { index, got }),
            }
        }
        let wanted = self.arity();
        if self.data.args.len() != wanted {
            self.found.push(Rule::Arity { wanted, got: self.data.args.len() });
        }
        if self.args.len() != wanted || self.data.args.len() != wanted {
            return;
        }
        if let Op::Input(number) = self.data.op {
            if inputs.contains(&number) {
                self.found.push(Rule::InputTwice { number });
            }
            inputs.push(number);
        }
        self.operation();
    }

    fn size(&mut self) {
        let dims = &self.data.dims;
        if dims.len() > MAX_RANK {
            self.found.push(Rule::Rank { got: dims.len() });
        }
        // Extents of 0 are left out: what is empty along one axis must not be boundless along the others.
        let len = dims.iter().filter(|&&n| n > 0).try_fold(1u64, |len, &n| len.checked_mul(n));
        if len.is_none_or(|len| len > MAX_ELEMENTS) {
            self.found.push(Rule::TooLarge { got: dims.clone() });
        }
    }

    fn arity(&self) -> usize {
        match &self.data.op {
            Op::Input(_) | Op::Constant(_) | Op::Scalar(_) | Op::Iota(_) | Op::Random(..) => 0,
            Op::Map(op) => op.row().arity,
            Op::Move(_) | Op::Reduce(..) | Op::Scan(..) | Op::Sort { .. } | Op::ArgSort { .. } => 1,
            Op::Contract | Op::Gather(..) => 2,
            Op::Scatter(..) => 3,
        }
    }

    fn operation(&mut self) {
        let data = self.data;
        match &data.op {
            Op::Input(got) => {
                if *got >= self.graph.inputs {
                    self.found.push(Rule::NoInput { wanted: self.graph.inputs, got: *got });
                }
            }
            Op::Constant(bits) => self.constant(*bits),
            Op::Scalar(slot) => self.slot(*slot, data.dtype),
            Op::Iota(axis) => {
                self.axis(*axis, data.dims.len());
                self.result_type("a number", data.dtype.class() != Class::Bool);
            }
            Op::Map(op) => self.pointwise(*op),
            Op::Move(movement) => {
                self.result_is(self.args[0].dtype);
                self.movement(movement);
            }
            Op::Reduce(kind, axes) => self.reduce(*kind, axes),
            Op::Scan(kind, axis) => {
                self.axis(*axis, self.args[0].dims.len());
                self.reduced_type(*kind);
                if kind.is_arg() {
                    self.found.push(Rule::NoScan { name: kind.name() });
                }
                self.result_is(self.args[0].dtype);
                self.result_dims(self.args[0].dims.clone());
            }
            Op::Contract => self.contract(),
            Op::Gather(index, axis) => self.gather(*index, *axis),
            Op::Scatter(index, axis, update) => self.scatter(*index, *axis, *update),
            Op::Random(dist, key, counter) => {
                self.slot(*key, DType::U64);
                self.slot(*counter, DType::U64);
                match dist {
                    Dist::Bits => self.result_type("u32 or u64", matches!(data.dtype, DType::U32 | DType::U64)),
                    Dist::Uniform | Dist::Normal => self.result_type("a float", data.dtype.is_float()),
                }
            }
            Op::Sort { axis, .. } => {
                self.axis(*axis, self.args[0].dims.len());
                self.result_is(self.args[0].dtype);
                self.result_dims(self.first(*axis));
            }
            Op::ArgSort { axis, .. } => {
                self.axis(*axis, self.args[0].dims.len());
                self.result_type("an integer", data.dtype.is_int());
                self.result_dims(self.first(*axis));
            }
        }
    }

    fn constant(&mut self, bits: u64) {
        let dtype = self.data.dtype;
        if bits & !number::mask(dtype) != 0 || dtype == DType::Bool && bits > 1 {
            self.found.push(Rule::Constant { bits, dtype });
        }
    }

    fn slot(&mut self, slot: Slot, wanted: DType) {
        match self.graph.slots.get(slot) {
            None => self.found.push(Rule::NoSlot { got: slot }),
            Some(&got) if got != wanted => self.found.push(Rule::SlotType { slot, wanted, got }),
            Some(_) => {}
        }
    }

    /// Whether the axis exists.
    fn axis(&mut self, got: u8, wanted: usize) -> bool {
        let exists = usize::from(got) < wanted;
        if !exists {
            self.found.push(Rule::Axis { wanted, got });
        }
        exists
    }

    fn result_type(&mut self, wanted: &'static str, holds: bool) {
        if !holds {
            self.found.push(Rule::ResultType { wanted, got: self.data.dtype });
        }
    }

    fn result_is(&mut self, wanted: DType) {
        self.result_type(wanted.name(), self.data.dtype == wanted);
    }

    /// The operand's extents, fewer along an axis where the result has fewer.
    fn first(&self, axis: u8) -> Dims {
        let mut wanted = self.args[0].dims.clone();
        if let (Some(n), Some(&keep)) = (wanted.get_mut(axis as usize), self.data.dims.get(axis as usize)) {
            *n = keep.min(*n);
        }
        wanted
    }

    fn result_dims(&mut self, wanted: Dims) {
        if self.data.dims != wanted {
            self.found.push(Rule::ResultDims { wanted, got: self.data.dims.clone() });
        }
    }

    fn operand_type(&mut self, index: usize, wanted: &'static str, holds: impl Fn(DType) -> bool) {
        let got = self.args[index].dtype;
        if !holds(got) {
            self.found.push(Rule::OperandType { index, wanted, got });
        }
    }

    fn operand_like(&mut self, index: usize, wanted: DType) {
        let got = self.args[index].dtype;
        if got != wanted {
            self.found.push(Rule::OperandsDiffer { index, wanted, got });
        }
    }

    fn operand_dims(&mut self, index: usize, wanted: Dims) {
        let got = self.args[index].dims.clone();
        if got != wanted {
            self.found.push(Rule::OperandDims { index, wanted, got });
        }
    }

    fn pointwise(&mut self, op: Pointwise) {
        let row = op.row();
        let last = self.args[row.arity - 1].dtype;
        let takes = match row.takes {
            Takes::Floats => "a float",
            Takes::Ints => "an integer",
            Takes::Numbers => "a number",
            Takes::Bits => "an integer or bool",
            Takes::All => "anything",
        };
        self.operand_type(row.arity - 1, takes, |d| row.accepts(d));
        for index in 0..row.arity - 1 {
            match op {
                Pointwise::Select if index == 0 => self.operand_type(0, "bool", |d| d == DType::Bool),
                _ => self.operand_like(index, last),
            }
        }
        for index in 0..row.arity {
            self.operand_dims(index, self.data.dims.clone());
        }
        match row.gives {
            Gives::Same => self.result_is(last),
            Gives::Bool => self.result_is(DType::Bool),
            Gives::Named if op == Pointwise::Bitcast => {
                self.result_type("of the operand's width", self.data.dtype.bits() == last.bits());
            }
            Gives::Named => {}
        }
    }

    /// Values are numbers, truth values are reduced by `any` and `all`.
    fn reduced_type(&mut self, kind: Reduction) {
        match kind {
            Reduction::Any | Reduction::All => self.operand_type(0, "bool", |d| d == DType::Bool),
            _ => self.operand_type(0, "a number", |d| d.class() != Class::Bool),
        }
    }

    fn reduce(&mut self, kind: Reduction, axes: &[u8]) {
        self.reduced_type(kind);
        match kind.is_arg() {
            true => self.result_type("an integer", self.data.dtype.is_int()),
            false => self.result_is(self.args[0].dtype),
        }
        if !axes.is_sorted_by(|a, b| a < b) {
            self.found.push(Rule::AxisOrder { got: axes.to_vec() });
        }
        let from = &self.args[0].dims;
        let mut to = from.clone();
        for &axis in axes {
            if self.axis(axis, from.len()) {
                to[usize::from(axis)] = 1;
            }
        }
        let has_identity = matches!(kind, Reduction::Sum | Reduction::Prod | Reduction::Any | Reduction::All);
        if !has_identity && from.contains(&0) && !to.contains(&0) {
            self.found.push(Rule::Nothing { name: kind.name() });
        }
        self.result_dims(to);
    }

    fn contract(&mut self) {
        let (a, b) = (self.args[0], self.args[1]);
        self.operand_type(0, "a number", |d| d.class() != Class::Bool);
        self.operand_like(1, a.dtype);
        self.result_is(a.dtype);
        let rank = a.dims.len();
        if rank < 2 {
            return self.found.push(Rule::OperandRank { index: 0, wanted: "at least 2", got: rank });
        }
        if b.dims.len() != rank {
            return self.found.push(Rule::OperandRank { index: 1, wanted: "as many", got: b.dims.len() });
        }
        let (left, right) = (a.dims[rank - 1], b.dims[rank - 2]);
        if left != right {
            self.found.push(Rule::Inner { left, right });
        }
        let mut wanted = a.dims.clone();
        wanted[rank - 2..].copy_from_slice(&b.dims[rank - 2..]);
        self.operand_dims(
            1,
            wanted.clone().into_iter().enumerate().map(|(i, n)| if i == rank - 2 { right } else { n }).collect(),
        );
        wanted[rank - 2] = a.dims[rank - 2];
        self.result_dims(wanted);
    }

    /// What indices address: `picked` has extents like `x`, but for the axis, or fewer.
    fn addressed(&mut self, index: Index, axis: u8, picked: &Dims) {
        self.operand_type(1, "an integer", DType::is_int);
        let (x, at) = (&self.args[0].dims, usize::from(axis));
        if !self.axis(axis, x.len()) {
            return;
        }
        let indices = self.args[1].dims.clone();
        match index {
            Index::Elements => {
                if picked.len() != x.len() {
                    return self.found.push(Rule::OperandRank { index: 1, wanted: "as many", got: picked.len() });
                }
                let most: Dims = (0..x.len()).map(|i| if i == at { picked[i] } else { picked[i].min(x[i]) }).collect();
                self.operand_dims(1, most);
            }
            Index::Positions if indices.len() == 1 => {
                let mut wanted = x.clone();
                wanted[at] = indices[0];
                if *picked != wanted {
                    self.found.push(Rule::ResultDims { wanted, got: picked.clone() });
                }
            }
            Index::Positions => self.found.push(Rule::OperandRank { index: 1, wanted: "1", got: indices.len() }),
        }
    }

    fn gather(&mut self, index: Index, axis: u8) {
        self.result_is(self.args[0].dtype);
        self.addressed(index, axis, &self.data.dims);
    }

    fn scatter(&mut self, index: Index, axis: u8, update: Update) {
        let dtype = self.args[0].dtype;
        match update {
            Update::Assign => {}
            Update::Or => self.operand_type(0, "bool", |d| d == DType::Bool),
            _ => self.operand_type(0, "a number", |d| d.class() != Class::Bool),
        }
        self.operand_like(2, dtype);
        self.result_is(dtype);
        self.result_dims(self.args[0].dims.clone());
        self.addressed(index, axis, &self.args[2].dims);
    }
}

#[cfg(test)]
mod tests;
