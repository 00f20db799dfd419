//! What a kernel computes per point of its domain: shared expressions over loads, indices and reduced values.

use std::hash::Hash;

use cranelift_entity::{PrimaryMap, entity_impl};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::affine::{Affine, Axis, Check};
use crate::dtype::DType;
use crate::graph::{Dist, Node, Slot};
use crate::op::Pointwise;

/// An expression of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ex(u32);
entity_impl!(Ex, "e");

/// Conditions that hold together.
pub type Checks = SmallVec<[Check; 2]>;

/// One expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A constant's bit pattern.
    Constant(u64),
    /// A scalar bound at each run.
    Slot(Slot),
    /// The index itself, as a number.
    Index(Affine),
    /// An element of the buffer that holds `node`, read where the checks hold and 0 elsewhere.
    Load {
        /// Whose buffer.
        node: Node,
        /// Where in it, in elements.
        at: Affine,
        /// When to read.
        checks: Checks,
    },
    /// A pointwise row.
    Map(Pointwise, SmallVec<[Ex; 3]>),
    /// `value` where the checks hold, else the bit pattern `fill`.
    Guard {
        /// Conditions.
        checks: Checks,
        /// Where they hold.
        value: Ex,
        /// Elsewhere.
        fill: u64,
    },
    /// The result of one of the kernel's reductions.
    Reduced(u32),
    /// A random number.
    Random {
        /// Distribution.
        dist: Dist,
        /// Seed.
        key: Slot,
        /// Number of the first element.
        counter: Slot,
        /// Number of this element.
        at: Affine,
    },
}

impl Expr {
    /// Expressions that it is computed from.
    pub fn operands(&self) -> &[Ex] {
        match self {
            Expr::Map(_, args) => args,
            Expr::Guard { value, .. } => std::slice::from_ref(value),
            _ => &[],
        }
    }

    /// Its index expressions: where it is, and what is checked.
    fn indices(&self) -> (Option<&Affine>, &[Check]) {
        match self {
            Expr::Index(at) | Expr::Random { at, .. } => (Some(at), &[]),
            Expr::Load { at, checks, .. } => (Some(at), checks),
            Expr::Guard { checks, .. } => (None, checks),
            _ => (None, &[]),
        }
    }

    /// All of them.
    fn affines(&self) -> impl Iterator<Item = &Affine> {
        let (at, checks) = self.indices();
        at.into_iter().chain(checks.iter().map(|c| &c.at))
    }
}

/// An expression with its type and what it depends on.
#[derive(Clone, Debug)]
pub struct ExprData {
    /// What it is.
    pub expr: Expr,
    /// Element type.
    pub dtype: DType,
    /// The reductions that must be complete before: 0 for none, else one more than the latest one's own stage.
    pub stage: u32,
}

/// An index that is itself computed: the pseudo-axis number `FIRST_GATHER + i` stands for the `i`-th.
#[derive(Clone, Debug)]
pub struct GatherAxis {
    /// The index's expression.
    pub index: Ex,
    /// Extent of the axis that it indexes.
    pub limit: i64,
    /// What to say when it is outside.
    pub message: String,
}

/// Number of the first pseudo-axis.
pub const FIRST_GATHER: Axis = 128;

/// All expressions of a kernel; equal ones are one.
#[derive(Clone, Debug, Default)]
pub struct Exprs {
    /// Expressions, operands before users.
    pub list: PrimaryMap<Ex, ExprData>,
    /// Computed indices.
    pub gathers: Vec<GatherAxis>,
    known: FxHashMap<(Expr, DType), Ex>,
    /// Stage of each reduction's result.
    reduced_stages: Vec<u32>,
}

impl Exprs {
    /// The expression equal to `expr`, made if it is new.
    pub fn add(&mut self, expr: Expr, dtype: DType) -> Ex {
        let key = (expr, dtype);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let stage = self.stage_of(&key.0);
        let ex = self.list.push(ExprData { expr: key.0.clone(), dtype, stage });
        self.known.insert(key, ex);
        ex
    }

    /// Announces a reduction whose input is `input`; its result is the expression given back.
    pub fn add_reduced(&mut self, input: Ex, dtype: DType) -> Ex {
        let id = self.reduced_stages.len() as u32;
        self.reduced_stages.push(self.list[input].stage + 1);
        self.add(Expr::Reduced(id), dtype)
    }

    fn stage_of(&self, expr: &Expr) -> u32 {
        let gathered = |at: &Affine| {
            let axes = at.terms.iter().filter(|t| t.0 >= FIRST_GATHER);
            axes.map(|t| self.list[self.gathers[(t.0 - FIRST_GATHER) as usize].index].stage).max().unwrap_or(0)
        };
        let checked = |checks: &Checks| checks.iter().map(|c| gathered(&c.at)).max().unwrap_or(0);
        match expr {
            Expr::Constant(_) | Expr::Slot(_) => 0,
            Expr::Index(at) | Expr::Random { at, .. } => gathered(at),
            Expr::Load { at, checks, .. } => gathered(at).max(checked(checks)),
            Expr::Map(_, args) => args.iter().map(|&a| self.list[a].stage).max().unwrap_or(0),
            Expr::Guard { checks, value, .. } => checked(checks).max(self.list[*value].stage),
            Expr::Reduced(id) => self.reduced_stages[*id as usize],
        }
    }

    /// Whether an index expression within `ex` has a term along `axis`.
    pub fn meets(&self, ex: Ex, axis: Axis) -> bool {
        let along = |at: &Affine| at.terms.iter().any(|t| t.0 == axis);
        self.needed([ex]).into_iter().any(|ex| self.list[ex].expr.affines().any(along))
    }

    /// Expressions that the given ones are computed from, themselves included.
    pub fn needed(&self, from: impl IntoIterator<Item = Ex>) -> FxHashSet<Ex> {
        let mut open: Vec<Ex> = from.into_iter().collect();
        let mut seen = FxHashSet::default();
        while let Some(ex) = open.pop() {
            if seen.insert(ex) {
                open.extend(self.list[ex].expr.operands());
            }
        }
        seen
    }

    /// Axes, as a set of bits, on which a place depends; a computed index depends on what it is computed from.
    pub fn followed(&self, at: &Affine) -> u128 {
        at.terms.iter().fold(0, |set, &(axis, _)| match axis < FIRST_GATHER {
            true => set | 1 << axis,
            false => set | self.varied(self.gathers[(axis - FIRST_GATHER) as usize].index),
        })
    }

    /// Axes, as a set of bits, along which an expression may differ.
    pub fn varied(&self, ex: Ex) -> u128 {
        let needed = self.needed([ex]);
        needed.into_iter().flat_map(|ex| self.list[ex].expr.affines()).fold(0, |set, at| set | self.followed(at))
    }

    /// All that is checked, each once.
    pub fn checks(&self) -> Vec<Check> {
        let mut checks: Vec<Check> = Vec::new();
        for check in self.list.values().flat_map(|data| data.expr.indices().1) {
            if !checks.contains(check) {
                checks.push(check.clone());
            }
        }
        checks
    }

    /// Nodes whose buffers are read.
    pub fn loads(&self) -> impl Iterator<Item = Node> {
        self.list.values().filter_map(|data| match data.expr {
            Expr::Load { node, .. } => Some(node),
            _ => None,
        })
    }

    /// Every index expression of the kernel, for rewriting and inspection.
    pub fn affines(&self) -> impl Iterator<Item = &Affine> {
        self.list.values().flat_map(|data| data.expr.affines())
    }

    /// Rewrites every index expression.
    pub fn rewrite(&mut self, change: impl Fn(&Affine) -> Affine) {
        for data in self.list.values_mut() {
            let (at, checks): (Option<&mut Affine>, &mut [Check]) = match &mut data.expr {
                Expr::Index(at) | Expr::Random { at, .. } => (Some(at), &mut []),
                Expr::Load { at, checks, .. } => (Some(at), checks),
                Expr::Guard { checks, .. } => (None, checks),
                _ => (None, &mut []),
            };
            for at in at.into_iter().chain(checks.iter_mut().map(|c| &mut c.at)) {
                *at = change(at);
            }
        }
        self.known.clear();
    }
}
