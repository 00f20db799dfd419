//! Recognises, by structure, the tails that vendors' libraries compute themselves while they write a product: a vector
//! added to each row, and what is negative set to 0.  Whether a library does is asked of whoever runs the plan.
//!
//! The library rounds once, what is recognised may round the product and each row: its error is no larger, and never that
//! of a plan in strict numerics, which has no products by a library.  GELU is left to the tail: the library's is one of
//! fewer digits.

use super::affine::{Affine, Axis};
use super::expr::{Ex, Expr};
use super::group::Body;
use super::plan::Layout;
use crate::dtype::DType;
use crate::graph::{Graph, Node};
use crate::op::Pointwise;

/// `max(product + bias, 0)`, or a part of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The result, which lies like the product.
    pub result: Node,
    /// Whose buffer holds the bias, an element per column side by side, and the place of the first one.
    pub bias: Option<(Node, i64)>,
    /// Whether what is negative becomes 0.
    pub relu: bool,
}

/// The form of a tail's body, of a product of factors of type `from`, if it is this one.  Of 16-bit factors whose product
/// is in f32 the result is of the factors' type, or in f32 too.
pub fn form(graph: &Graph, body: &Body, (product, from): (Node, DType)) -> Option<Form> {
    let ([store], []) = (&body.stores[..], &body.folds[..]) else { return None };
    let columns = *graph.dims(product).last()?;
    let (wide, dtype) = (graph.dtype(product), graph.dtype(store.node));
    if dtype != wide && dtype != from || graph.nodes[store.node].len() != graph.nodes[product].len() {
        return None;
    }
    let expr = |ex: Ex| &body.exprs.list[ex].expr;
    // The operand beside one that `is` tells, in either order.
    let beside = |op: Pointwise, ex: Ex, is: &dyn Fn(Ex) -> bool| match expr(ex) {
        Expr::Map(o, args) if *o == op && is(args[1]) => Some((args[0], args[1])),
        Expr::Map(o, args) if *o == op && is(args[0]) => Some((args[1], args[0])),
        _ => None,
    };
    // Of a conversion between the two types, what is converted; rounding and what it rounds to 0 change places.
    let converted = |ex: Ex| match expr(ex) {
        Expr::Map(Pointwise::Cast, args) if [wide, dtype].contains(&body.exprs.list[args[0]].dtype) => args[0],
        _ => ex,
    };
    let is_product = |ex: Ex| matches!(expr(ex), Expr::Load { node, at, .. } if *node == product && *at == store.at);
    let rounded = converted(store.value);
    let clamped = beside(Pointwise::Max, rounded, &|ex| *expr(ex) == Expr::Constant(0));
    let sum = clamped.map_or(rounded, |(sum, _)| converted(sum));
    let bias = match beside(Pointwise::Add, sum, &is_product) {
        _ if is_product(sum) => None,
        Some((other, _)) => match expr(converted(other)) {
            Expr::Load { node, at, checks }
                if *node != product
                    && checks.is_empty()
                    && graph.dtype(*node) == dtype
                    && is_column(body, at, columns) =>
            {
                Some((*node, at.constant))
            }
            _ => return None,
        },
        None => return None,
    };
    let form = Form { result: store.node, bias, relu: clamped.is_some() };
    (form.bias.is_some() || form.relu).then_some(form)
}

/// Whether an index is that of the column, from its constant on.  No axis may run from one row into the next.
fn is_column(body: &Body, at: &Affine, columns: u64) -> bool {
    let extents: Vec<u64> = body.domain.axes.iter().map(|a| a.extent).collect();
    let strides = Layout::contiguous(&extents).strides;
    let column = |stride: i64| if (stride as u64) < columns { stride } else { 0 };
    let ends = |(&stride, &n): (&i64, &u64)| stride as u64 >= columns || stride as u64 * n <= columns;
    at.denominator == 1
        && strides.iter().zip(&extents).all(ends)
        && at.terms.iter().all(|t| (t.0 as usize) < extents.len())
        && strides.iter().enumerate().all(|(axis, &stride)| at.coefficient(axis as Axis) == column(stride))
}

#[cfg(test)]
mod tests {
    use super::super::execute::run_plan;
    use super::super::plan::{InputData, Options, Plan, Step};
    use super::super::{Grain, Layout, explain, plan, plan_for};
    use crate::DType;
    use crate::graph::{Array, Graph, Op, number};

    const OPTIONS: Options = Options::new(true, Some(1), Grain::of_vectors(4));

    /// A product of factors of one type, of another, a bias, a residual, and what is made of them.
    fn graph(rows: &str, [from, dtype]: [&str; 2]) -> Graph {
        let wide = if from == dtype { "" } else { "  n4: f32[9, 33] = cast n0\n  n5: f32[33, 20] = cast n1\n" };
        let [x, y, next] = if from == dtype { [0, 1, 4] } else { [4, 5, 6] };
        let text = format!(
            "graph 4 inputs {{
  n0: {from}[9, 33] = input 0
  n1: {from}[33, 20] = input 1
  n2: {from}[1, 20] = input 2
  n3: {dtype}[9, 20] = input 3
{wide}  n{next}: {dtype}[9, 20] = contract n{x}, n{y}
{rows}
}}"
        );
        text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    fn inputs(graph: &Graph) -> Vec<InputData> {
        let inputs = graph.nodes.values().filter(|data| matches!(data.op, Op::Input(_)));
        let input = |dims: &[u64]| InputData {
            layout: Layout::contiguous(dims),
            buffer_len: dims.iter().product(),
            donated: false,
        };
        inputs.map(|data| input(&data.dims)).collect()
    }

    /// What the product's epilogue is: the type of the result, the elements of the bias's buffer, and whether negative
    /// elements go.  With one, nothing else runs, and its results are those of the plan without.
    fn told(rows: &str, dtypes: [&str; 2]) -> Option<(DType, Option<u64>, bool)> {
        let graph = graph(rows, dtypes);
        let inputs = inputs(&graph);
        let whole = plan_for(&graph, &inputs, &OPTIONS, &|_| true);
        let Step::Gemm(gemm) = &whole.steps[0] else { panic!("{whole}") };
        let epilogue = gemm.epilogue?;
        assert!(whole.programs.is_empty() && !whole.to_string().contains("launch"), "{whole}");
        let apart = plan(&graph, &inputs, &OPTIONS);
        assert!(apart.steps.iter().all(|s| !matches!(s, Step::Gemm(gemm) if gemm.epilogue.is_some())));
        assert_eq!(results(&graph, &whole), results(&graph, &apart), "{whole}");
        // What it reads and writes is told of one step, without the product.
        let told = explain(&graph, &inputs, &OPTIONS, &|_| true);
        let [step] = &told.steps[..] else { panic!("{told:#?}") };
        let wanted = step.writes.iter().filter(|value| value.wanted).count();
        assert_eq!((step.writes.len(), wanted, step.tail, told.edges.len()), (1, 1, None, 0), "{told:#?}");
        Some((gemm.dtype, epilogue.bias.map(|(buffer, _)| whole.buffers[buffer].len), epilogue.relu))
    }

    /// Small whole numbers, whose products every type holds.
    fn results(graph: &Graph, plan: &Plan) -> Vec<Array> {
        let inputs = graph.nodes.values().filter(|data| matches!(data.op, Op::Input(_))).map(|data| {
            let value = |i: u64| number::from_f64(data.dtype, (i * 7 % 5) as f64 - 2.0);
            Array::new(data.dtype, &data.dims, (0..data.len()).map(value).collect())
        });
        let wanted: Vec<&[u64]> = graph.outputs.iter().map(|&n| graph.dims(n).as_slice()).collect();
        run_plan(plan, &inputs.collect::<Vec<_>>(), &[], &wanted, false).expect("the plan runs")
    }

    const ONE: [&str; 2] = ["f32", "f32"];

    #[test]
    fn a_bias_and_an_activation_are_recognised() {
        let bias = "  n5: f32[9, 20] = expand n2\n";
        let zero = "  n6: f32[9, 20] = constant 0.0\n";
        let f32 = DType::F32;
        assert_eq!(
            told(&format!("{bias}  n6: f32[9, 20] = add n4, n5\n  outputs n6"), ONE),
            Some((f32, Some(20), false))
        );
        assert_eq!(
            told(&format!("{bias}  n6: f32[9, 20] = add n5, n4\n  outputs n6"), ONE),
            Some((f32, Some(20), false))
        );
        let rows = format!("{bias}{zero}  n7: f32[9, 20] = add n4, n5\n  n8: f32[9, 20] = max n7, n6\n  outputs n8");
        assert_eq!(told(&rows, ONE), Some((f32, Some(20), true)));
        let rows = format!("{bias}{zero}  n7: f32[9, 20] = max n4, n6\n  outputs n7");
        assert_eq!(told(&rows, ONE), Some((f32, None, true)));
    }

    /// A layer of 16-bit floats that is rounded once, before or after its activation.
    #[test]
    fn a_sum_in_f32_is_rounded_with_the_product() {
        for from in ["f16", "bf16"] {
            let bias = "  n7: f32[1, 20] = cast n2\n  n8: f32[9, 20] = expand n7\n  n9: f32[9, 20] = add n6, n8\n";
            let dtype = if from == "f16" { DType::F16 } else { DType::Bf16 };
            let rows = format!("{bias}  n10: {from}[9, 20] = cast n9\n  outputs n10");
            assert_eq!(told(&rows, [from, "f32"]), Some((dtype, Some(20), false)));
            let rows = format!(
                "{bias}  n10: {from}[9, 20] = cast n9\n  n11: {from}[9, 20] = constant 0.0\n  n12: {from}[9, 20] = max n10, n11\n  outputs n12"
            );
            assert_eq!(told(&rows, [from, "f32"]), Some((dtype, Some(20), true)));
            // The library's bias is of the result's type.
            assert_eq!(told(&format!("{bias}  outputs n9"), [from, "f32"]), None);
        }
    }

    #[test]
    fn other_tails_are_not_taken_for_one() {
        let bias = "  n5: f32[9, 20] = expand n2\n";
        for rows in [
            // A residual, another function, two results, a norm, the product itself, a part of it.
            "  n6: f32[9, 20] = add n4, n3\n  outputs n6",
            "  n6: f32[9, 20] = sub n4, n5\n  outputs n6",
            "  n6: f32[9, 20] = max n4, n5\n  outputs n6",
            "  n6: f32[9, 20] = add n4, n5\n  n7: f32[9, 20] = exp n6\n  outputs n6, n7",
            "  n6: f32[9, 20] = add n4, n5\n  n7: f32[9, 1] = reduce max [1] n6\n  outputs n7",
            "  n6: f32[9, 20] = add n4, n5\n  outputs n6, n4",
            "  n6: f32[4, 20] = slice [0:4:1, 0:20:1] n4\n  n7: f32[4, 20] = slice [0:4:1, 0:20:1] n5\n  n8: f32[4, 20] = add n6, n7\n  outputs n8",
            // As many as the product has, in one row; the product itself.
            "  n6: f32[180] = reshape n4\n  n7: f32[180] = reshape n3\n  n8: f32[180] = add n6, n7\n  outputs n8",
            "  n6: f32[180] = reshape n4\n  n7: f32[180] = add n6, n6\n  outputs n7",
        ] {
            assert_eq!(told(&format!("{bias}{rows}"), ONE), None, "{rows}");
        }
    }
}
