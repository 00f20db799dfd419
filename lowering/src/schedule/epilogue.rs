//! Recognises, by structure, the tails that vendors' libraries compute themselves while they write a product: a vector
//! added to each row, and what is negative set to 0.  Whoever runs the plan decides whether to make use of it.

use super::affine::{Affine, Axis};
use super::expr::{Ex, Expr};
use super::group::Body;
use super::plan::Layout;
use crate::graph::Node;
use crate::op::Pointwise;

/// `max(product + bias, 0)`, or a part of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The result.
    pub result: Node,
    /// Whose buffer holds the bias, an element per column side by side, and the place of the first one.
    pub bias: Option<(Node, i64)>,
    /// Whether what is negative becomes 0.
    pub relu: bool,
}

/// The form of a tail's body, of a product with `columns`, if it is this one.
pub fn form(body: &Body, product: Node, columns: u64) -> Option<Form> {
    let ([store], []) = (&body.stores[..], &body.folds[..]) else { return None };
    let expr = |ex: Ex| &body.exprs.list[ex].expr;
    // The operand beside one that `is` tells, in either order.
    let beside = |op: Pointwise, ex: Ex, is: &dyn Fn(&Expr) -> bool| match expr(ex) {
        Expr::Map(o, args) if *o == op && is(expr(args[1])) => Some((args[0], args[1])),
        Expr::Map(o, args) if *o == op && is(expr(args[0])) => Some((args[1], args[0])),
        _ => None,
    };
    let is_product = |e: &Expr| matches!(e, Expr::Load { node, at, .. } if *node == product && *at == store.at);
    let clamped = beside(Pointwise::Max, store.value, &|e| *e == Expr::Constant(0));
    let sum = clamped.map_or(store.value, |(sum, _)| sum);
    let bias = match (expr(sum), beside(Pointwise::Add, sum, &is_product)) {
        (e, _) if is_product(e) => None,
        (_, Some((other, _))) => match expr(other) {
            Expr::Load { node, at, checks } if checks.is_empty() && is_column(body, at, columns) => {
                Some((*node, at.constant))
            }
            _ => return None,
        },
        _ => return None,
    };
    Some(Form { result: store.node, bias, relu: clamped.is_some() })
}

/// Whether an index is that of the column, from its constant on.
fn is_column(body: &Body, at: &Affine, columns: u64) -> bool {
    let extents: Vec<u64> = body.domain.axes.iter().map(|a| a.extent).collect();
    let strides = Layout::contiguous(&extents).strides;
    let column = |stride: i64| if (stride as u64) < columns { stride } else { 0 };
    at.denominator == 1
        && at.terms.iter().all(|t| (t.0 as usize) < extents.len())
        && strides.iter().enumerate().all(|(axis, &stride)| at.coefficient(axis as Axis) == column(stride))
}

#[cfg(test)]
mod tests {
    use super::super::plan::{InputData, Options, Step};
    use super::super::{Grain, Layout, plan};
    use crate::graph::{Graph, Op};

    /// What the plan says of the product's epilogue: the elements of the bias's buffer, whether negative elements go, and
    /// whether the product itself is wanted.
    fn told(rows: &str) -> Option<(Option<u64>, bool, bool)> {
        let text = format!(
            "graph 4 inputs {{
  n0: f32[9, 33] = input 0
  n1: f32[33, 20] = input 1
  n2: f32[1, 20] = input 2
  n3: f32[9, 20] = input 3
  n4: f32[9, 20] = contract n0, n1
  n5: f32[9, 20] = expand n2
{rows}
}}"
        );
        let graph: Graph = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
        let inputs = graph.nodes.values().filter(|data| matches!(data.op, Op::Input(_))).map(|data| InputData {
            layout: Layout::contiguous(&data.dims),
            buffer_len: data.len(),
            donated: false,
        });
        let options = Options { fuse: true, gemm_from: Some(1), grain: Grain::of_vectors(4) };
        let plan = plan(&graph, &inputs.collect::<Vec<_>>(), &options);
        let Step::Gemm(gemm) = &plan.steps[0] else { panic!("{plan}") };
        let epilogue = gemm.tail.as_ref().unwrap_or_else(|| panic!("{plan}")).epilogue?;
        Some((epilogue.bias.map(|(buffer, _)| plan.buffers[buffer].len), epilogue.relu, epilogue.replaces))
    }

    #[test]
    fn a_bias_and_an_activation_are_recognised() {
        let zero = "  n6: f32[9, 20] = constant 0.0\n";
        assert_eq!(told("  n6: f32[9, 20] = add n4, n5\n  outputs n6"), Some((Some(20), false, true)));
        assert_eq!(told("  n6: f32[9, 20] = add n5, n4\n  outputs n6, n4"), Some((Some(20), false, false)));
        let relu = format!("{zero}  n7: f32[9, 20] = add n4, n5\n  n8: f32[9, 20] = max n7, n6\n  outputs n8");
        assert_eq!(told(&relu), Some((Some(20), true, true)));
        let relu = format!("{zero}  n7: f32[9, 20] = max n4, n6\n  outputs n7");
        assert_eq!(told(&relu), Some((None, true, true)));
    }

    #[test]
    fn other_tails_are_not_taken_for_one() {
        for rows in [
            // A residual, another function, two results, a norm.
            "  n6: f32[9, 20] = add n4, n3\n  outputs n6",
            "  n6: f32[9, 20] = sub n4, n5\n  outputs n6",
            "  n6: f32[9, 20] = max n4, n5\n  outputs n6",
            "  n6: f32[9, 20] = add n4, n5\n  n7: f32[9, 20] = exp n6\n  outputs n6, n7",
            "  n6: f32[9, 20] = add n4, n5\n  n7: f32[9, 1] = reduce max [1] n6\n  outputs n7",
        ] {
            assert_eq!(told(rows), None, "{rows}");
        }
    }
}
