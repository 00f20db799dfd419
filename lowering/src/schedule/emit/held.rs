//! Reductions with the lanes along the reduced axes whose terms all fit the registers of a program: each is loaded and
//! computed once, whatever number of reductions and results wait for it.  The order of the sums is that of
//! [`along`](super::along).

use cranelift_entity::SecondaryMap;

use super::super::expr::{Ex, Expr};
use super::super::group::Body;
use super::super::simplify::{CHUNK, LANES};
use super::combine::{Carried, append};
use super::context::Emitter;
use super::point::Point;
use super::reduce::Visit;
use super::walk;
use crate::op::Pointwise;
use crate::tile::Value;

/// All terms of a row, as tiles of [`LANES`].
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Number of tiles.
    pub tiles: u64,
    /// Whether the terms fill them exactly; else they fill more than half of them.
    pub exact: bool,
}

/// Most instructions that are written for a row, each for every tile.
const LONGEST: u64 = 4096;

/// In which stages expressions are needed.
struct Stages {
    first_and_last: SecondaryMap<Ex, Option<[u32; 2]>>,
}

impl Stages {
    fn of(body: &Body) -> Stages {
        let stage = |ex: Ex| body.exprs.list[ex].stage;
        let mut first_and_last: SecondaryMap<Ex, Option<[u32; 2]>> = SecondaryMap::new();
        let roots = body.folds.iter().map(|f| f.input).chain(body.stores.iter().map(|s| s.value));
        for root in roots {
            let now = stage(root);
            for ex in body.exprs.needed([root]) {
                let [first, last] = first_and_last[ex].unwrap_or([now, now]);
                first_and_last[ex] = Some([first.min(now), last.max(now)]);
            }
        }
        Stages { first_and_last }
    }

    fn several(&self, ex: Ex) -> bool {
        self.first_and_last[ex].is_some_and(|[first, last]| first != last)
    }
}

impl Held {
    /// How a row of `terms` is held, if a program that holds `most` elements can, and it is worth it: if terms are wanted
    /// more than once.
    pub fn of(body: &Body, terms: u64, most: u64) -> Option<Held> {
        // What is read for one stage alone need not wait in registers.
        let stages = Stages::of(body);
        let loads = body.exprs.list.iter().filter(|(ex, d)| matches!(d.expr, Expr::Load { .. }) && stages.several(*ex));
        let loads = loads.count() as u64;
        let last = body.exprs.list.values().map(|d| d.stage).max().unwrap_or(0);
        let exact = terms.is_multiple_of(LANES);
        let tiles = if exact { terms / LANES } else { terms.div_ceil(LANES).next_power_of_two() };
        let fits = tiles * LANES * loads.max(1) <= most && tiles * body.exprs.list.len() as u64 <= LONGEST;
        (last > 0 && fits).then_some(Held { tiles, exact })
    }
}

/// Most tiles that are loaded and computed as one.
const TOGETHER: u64 = 8;

/// What is known of some tiles of a row, one below the other.
pub struct Group {
    point: Point,
    /// Where the terms lie in the row.
    index: Value,
    /// Number of tiles, a power of two.
    tiles: u64,
}

impl Held {
    /// Numbers of tiles, each a power of two, that lie whole inside a chunk, inside the half of the row that may end
    /// early, and inside a run where there are several.
    fn groups(self, run_length: Option<u64>) -> Vec<u64> {
        let most = if self.exact { TOGETHER } else { TOGETHER.min(self.tiles / 2).max(1) };
        let most = run_length.map_or(most, |terms| most.min(1 << (terms / LANES).trailing_zeros()));
        let mut rest = self.tiles;
        std::iter::from_fn(|| {
            let size = most.min((rest + 1).next_power_of_two() / 2);
            rest -= size;
            (size > 0).then_some(size)
        })
        .collect()
    }
}

impl Visit<'_> {
    /// Visits all tiles of the row, `groups` being what is known of them from earlier visits.
    pub(super) fn held(&self, e: &mut Emitter, point: &mut Point, held: Held, groups: &mut Vec<Group>) -> Vec<Value> {
        let shape = [LANES as u32];
        let lanes = walk::lanes(e, LANES as u32, None);
        self.hoist(e, point);
        if groups.is_empty() {
            let mut first = 0;
            for tiles in held.groups(self.terms.run_length) {
                let masked = !held.exact && first >= held.tiles / 2;
                groups.push(self.group(e, point, (first, tiles), masked));
                first += tiles;
            }
        }
        for Group { point: inner, .. } in groups.iter_mut() {
            inner.reduced.clone_from(&point.reduced);
            for (&ex, &value) in &point.known {
                inner.known.entry(ex).or_insert(value);
            }
        }
        let first = e.int(0);
        let first = e.op(Pointwise::Add, first, lanes);
        let neutral = self.initial(e, &shape, Some(first)).concat();
        let chunk = if self.is_exact() { held.tiles } else { CHUNK / LANES };
        let mut partials: Vec<Vec<Carried>> = Vec::new();
        let (mut sums, mut done) = (neutral.clone(), 0);
        for group in groups.iter_mut() {
            sums = self.add_group(e, group, &sums);
            done += group.tiles;
            if done % chunk == 0 || done == held.tiles {
                let sums = std::mem::replace(&mut sums, neutral.clone());
                partials.push(self.halve(e, &self.split(&sums)));
            }
        }
        let whole = match &partials[..] {
            [one] => one.clone(),
            _ => {
                let sums = self.initial(e, &shape, None).concat();
                let joined = partials.iter().zip(0..).fold(sums, |sums: Vec<Value>, (partial, number)| {
                    let number = e.int(number);
                    self.joined_in_lane(e, (lanes, number), &self.split(&sums), partial, &shape)
                });
                self.halve(e, &self.split(&joined))
            }
        };
        self.results(e, &whole)
    }

    /// The point at some tiles, from the first on.
    fn group(&self, e: &mut Emitter, point: &Point, (first, tiles): (u64, u64), masked: bool) -> Group {
        let shape = [tiles as u32, LANES as u32];
        let lanes = places(e, &shape);
        let start = e.int((first * LANES) as i64);
        let index = e.op(Pointwise::Add, start, lanes);
        let mask = masked.then(|| e.op(Pointwise::Lt, index, self.terms.count));
        Group { point: self.at(e, point, (start, lanes), mask), index, tiles }
    }

    /// Feeds the tiles of a group one after the other, and writes what is complete.
    fn add_group(&self, e: &mut Emitter, group: &mut Group, sums: &[Value]) -> Vec<Value> {
        let shape = [group.tiles as u32, LANES as u32];
        let operands = self.operands(e, &mut group.point, group.index, &shape);
        self.write(e, &mut group.point);
        let operands = operands.iter().map(|operand| operand.iter().map(|&x| rows(e, x)).collect::<Vec<_>>());
        let operands: Vec<Vec<Vec<Value>>> = operands.collect();
        (0..group.tiles as usize).fold(sums.to_vec(), |sums, row| {
            let kinds = self.folds.iter().map(|&i| self.body.folds[i].kind);
            let sums = self.split(&sums);
            let fed = kinds.zip(sums.iter().zip(&operands)).flat_map(|(kind, (sum, operand))| {
                let x: Carried = operand.iter().map(|rows| rows[row]).collect();
                append(&mut e.b, kind, sum, &x)
            });
            fed.collect()
        })
    }
}

/// `0, 1, 2, …` in row-major order, counting up along the lanes' axis.
fn places(e: &mut Emitter, shape: &[u32; 2]) -> Value {
    let rows = walk::lanes(e, shape[0], Some(1));
    let pitch = e.int(shape[1].into());
    let rows = e.op(Pointwise::Mul, rows, pitch);
    let columns = walk::lanes(e, shape[1], Some(0));
    let [rows, columns] = [rows, columns].map(|x| e.b.broadcast(x, shape));
    e.op(Pointwise::Add, rows, columns)
}

/// The rows of a tile whose number is a power of two, by halves.
fn rows(e: &mut Emitter, x: Value) -> Vec<Value> {
    let shape = e.b.ty(x).shape.clone();
    if shape[0] == 1 {
        return vec![e.b.reshape(x, &shape[1..])];
    }
    let apart = e.b.reshape(x, &[2, shape[0] / 2, shape[1]]);
    let apart = e.b.trans(apart, &[1, 2, 0]);
    let [upper, lower] = e.b.split(apart);
    [upper, lower].into_iter().flat_map(|half| rows(e, half)).collect()
}
