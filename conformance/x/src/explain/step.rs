//! One step of a program: the kernels of its operations, with what they move, take and leave apart.  A plan may hold
//! several steps, and a step may go through several plans.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::fold::{self, Block};
use super::period;
use super::record::{Edge, Kernel, Record, Segment};

/// One step.
#[derive(Debug, Default)]
pub struct Step {
    pub example: String,
    /// The kernels that are left of it, if it is only a part: from which to which, counted from 1.
    pub part: Option<(usize, usize)>,
    /// Number of recorded operations.
    pub ops: usize,
    /// In order.
    pub kernels: Vec<Kernel>,
    /// Between kernels, by place in the list.
    pub edges: Vec<Edge>,
    /// The first kernel of each plan but the first.
    pub cuts: Vec<usize>,
    /// Blocks of kernels that repeat.
    pub blocks: Vec<Block>,
    /// The step's plans: number, and how often each ran.
    pub plans: Vec<(u64, usize)>,
    /// Kernels of the step that were compiled, that came from the disk, and the seconds it took.
    pub compiled: u64,
    pub from_disk: u64,
    pub compile_seconds: f64,
    /// Of the whole program: plans made, and runs of any plan.
    pub planned: usize,
    pub runs: usize,
}

/// A reason and how often it comes.
pub struct Counted<'a> {
    pub name: &'a str,
    pub says: &'a str,
    pub times: usize,
}

/// A run of a plan, and which of all recorded operations is its first.
struct Ran<'a> {
    segment: &'a Segment,
    first: usize,
}

impl Step {
    /// The step that a program repeats; the last plan that ran where nothing repeats.
    pub fn of(example: &str, record: &Record) -> Result<Step, String> {
        let by_number: HashMap<u64, &Segment> = record.segments.iter().map(|s| (s.number, s)).collect();
        let mut names: HashMap<&str, u32> = HashMap::new();
        let (mut ops, mut runs) = (Vec::new(), Vec::new());
        for segment in record.runs.iter().filter_map(|run| by_number.get(&run.segment)) {
            runs.push(Ran { segment, first: ops.len() });
            for op in &segment.ops {
                let next = names.len() as u32;
                ops.push(*names.entry(op).or_insert(next));
            }
        }
        let Some(last) = runs.last() else { return Err("the program ran nothing on Kiln".into()) };
        let (from, to) = match period::find(&ops) {
            Some(period) => {
                let cuts =
                    |start: usize| runs.iter().filter(|r| r.first > start && r.first < start + period.len).count();
                let starts = (0..period.times).map(|n| period.start + n * period.len);
                let middle = period.start + period.times / 2 * period.len;
                let start = starts.min_by_key(|&start| (cuts(start), start.abs_diff(middle))).unwrap_or(period.start);
                (start, start + period.len)
            }
            None => (last.first, ops.len()),
        };
        let mut step = Step { example: example.into(), ops: to - from, ..Step::default() };
        for ran in runs.iter().filter(|ran| ran.first < to && ran.first + ran.segment.ops.len() > from) {
            let times = record.runs.iter().filter(|run| run.segment == ran.segment.number).count();
            step.add(ran, from..to, times);
        }
        (step.planned, step.runs) = (record.segments.len(), record.runs.len());
        step.fold();
        Ok(step)
    }

    /// The kernels `first` to `last`, counted from 1, and what lies between them.
    pub fn part(mut self, first: usize, last: usize) -> Option<Step> {
        if first == 0 || first > last || last > self.kernels.len() {
            return None;
        }
        let from = first - 1;
        self.kernels.truncate(last);
        self.kernels.drain(..from);
        self.edges.retain(|edge| edge.from >= from && edge.to < last);
        self.edges.iter_mut().for_each(|edge| (edge.from, edge.to) = (edge.from - from, edge.to - from));
        self.cuts = self.cuts.iter().filter(|&&cut| cut > from && cut < last).map(|cut| cut - from).collect();
        self.ops = self.kernels.iter().map(|kernel| kernel.ops.len()).sum();
        self.part = Some((first, last));
        self.fold();
        Some(self)
    }

    fn fold(&mut self) {
        let same: Vec<(&str, &[String])> = self.kernels.iter().map(|k| (k.name.as_str(), k.ops.as_slice())).collect();
        self.blocks = fold::blocks(&same);
    }

    /// Adds the kernels that compute the last of what they compute in this range of operations.
    fn add(&mut self, ran: &Ran, range: Range<usize>, times: usize) {
        let (segment, first) = (ran.segment, self.kernels.len());
        let mut places = HashMap::new();
        for (at, kernel) in segment.kernels.iter().enumerate() {
            if range.contains(&(ran.first + kernel.last_op)) {
                places.insert(at, self.kernels.len());
                self.kernels.push(kernel.clone());
            }
        }
        if first > 0 && self.kernels.len() > first {
            self.cuts.push(first);
        }
        for edge in &segment.edges {
            if let (Some(&from), Some(&to)) = (places.get(&edge.from), places.get(&edge.to)) {
                self.edges.push(Edge { from, to, ..edge.clone() });
            }
        }
        self.plans.push((segment.number, times));
        self.compiled += segment.compiled;
        self.from_disk += segment.from_disk;
        self.compile_seconds += segment.compile_seconds;
    }

    /// Rows of the graph that its kernels compute.
    pub fn rows(&self) -> usize {
        self.kernels.iter().map(|k| k.rows.len()).sum()
    }

    /// Bytes that all rows would move one by one.
    pub fn alone(&self) -> u64 {
        self.kernels.iter().map(|k| k.alone).sum()
    }

    /// Bytes that the step moves.
    pub fn bytes(&self) -> u64 {
        self.kernels.iter().map(Kernel::bytes).sum()
    }

    /// Kernels, products and sorts.
    pub fn counts(&self) -> [usize; 3] {
        ["kernel", "gemm", "sort"].map(|kind| self.kernels.iter().filter(|k| k.kind == kind).count())
    }

    /// Products with an epilogue.
    pub fn epilogues(&self) -> usize {
        self.kernels.iter().filter(|k| k.tail.is_some()).count()
    }

    /// Microseconds in kernels.
    pub fn micros(&self) -> f64 {
        self.kernels.iter().map(|k| k.micros).fold(0.0, |sum, micros| sum + micros)
    }

    /// Reasons, the most frequent first.
    pub fn reasons(&self) -> Vec<Counted<'_>> {
        let mut times: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for edge in &self.edges {
            *times.entry((&edge.reason, &edge.says)).or_default() += 1;
        }
        let mut list: Vec<Counted> =
            times.into_iter().map(|((name, says), times)| Counted { name, says, times }).collect();
        list.sort_by(|a, b| b.times.cmp(&a.times).then(a.name.cmp(b.name)));
        list
    }

    /// Kernels that are shown: of a block that repeats, the first.
    pub fn shown(&self) -> Vec<usize> {
        let hidden = |at: usize| self.blocks.iter().any(|b| at >= b.start + b.len && at < b.start + b.len * b.times);
        (0..self.kernels.len()).filter(|&at| !hidden(at)).collect()
    }

    /// Edges between shown kernels: one that leaves a hidden repetition leaves the block that stands for it.
    pub fn shown_edges(&self) -> Vec<Edge> {
        let stands = |at: usize| match self.block_of(at) {
            Some(block) => block.start + (at - block.start) % block.len,
            None => at,
        };
        let shown = self.shown();
        let edges = self.edges.iter().filter(|edge| shown.contains(&edge.to));
        edges.map(|edge| Edge { from: stands(edge.from), ..edge.clone() }).filter(|edge| edge.from < edge.to).collect()
    }

    /// The block that a kernel belongs to.
    pub fn block_of(&self, at: usize) -> Option<&Block> {
        self.blocks.iter().find(|b| at >= b.start && at < b.start + b.len * b.times)
    }
}

impl Kernel {
    /// Bytes that it moves.
    pub fn bytes(&self) -> u64 {
        self.reads.iter().chain(&self.writes).map(|value| value.bytes).sum()
    }

    /// What it is, in a word or two.
    pub fn title(&self) -> String {
        match self.kind.as_str() {
            "gemm" => {
                let epilogue = if self.tail.is_some() { " with epilogue" } else { "" };
                self.name.replacen("gemm", "product", 1) + epilogue
            }
            "sort" => self.name.clone(),
            _ => {
                let word = self.name.split(['_', '-']).next().unwrap_or_default();
                match word {
                    "reduce" => "reduction".into(),
                    "map" => if self.rows.iter().all(|row| row == "copy") { "copy" } else { "pointwise" }.into(),
                    other => other.replace("contract", "small product"),
                }
            }
        }
    }

    /// The recorded operations without Burn's prefixes; those that follow each other alike are one with a count.
    pub fn words(&self) -> Vec<String> {
        let plain = |op: &str| {
            let op = ["float_", "int_", "bool_"].iter().find_map(|prefix| op.strip_prefix(prefix)).unwrap_or(op);
            op.trim_end_matches("_scalar").trim_end_matches("_elem").replace('_', " ")
        };
        let mut words: Vec<(String, usize)> = Vec::new();
        for word in self.ops.iter().map(|op| plain(op)) {
            match words.last_mut() {
                Some((last, times)) if *last == word => *times += 1,
                _ => words.push((word, 1)),
            }
        }
        words.into_iter().map(|(word, times)| if times > 1 { format!("{word} ×{times}") } else { word }).collect()
    }
}

/// Bytes for people: `131 kB`.
pub fn bytes(n: u64) -> String {
    let (n, unit) = match n {
        0..1_000 => return format!("{n} B"),
        1_000..1_000_000 => (n as f64 / 1e3, "kB"),
        1_000_000..1_000_000_000 => (n as f64 / 1e6, "MB"),
        _ => (n as f64 / 1e9, "GB"),
    };
    if n < 10.0 { format!("{n:.1} {unit}") } else { format!("{n:.0} {unit}") }
}

#[cfg(test)]
pub mod tests {
    use super::super::record;
    use super::*;

    pub fn sample() -> Step {
        let record = Record::parse(record::tests::TEXT).expect("the file is whole");
        Step::of("sample", &record).expect("something ran")
    }

    #[test]
    fn plans_of_a_step_are_put_together() {
        let step = sample();
        assert_eq!((step.kernels.len(), step.cuts.as_slice(), step.counts()), (3, &[2][..], [2, 1, 0]));
        assert_eq!(step.plans, [(1, 4), (2, 3)]);
        assert_eq!(step.bytes(), 131_072 + 524_288 + 131_072 + 131_072 + 2_048 + 131_072 + 400 + 400);
        assert_eq!(step.reasons().iter().map(|r| (r.name, r.times)).collect::<Vec<_>>(), [("product by BLAS", 1)]);
    }

    #[test]
    fn a_part_keeps_what_lies_inside() {
        let part = sample().part(1, 2).expect("there are three kernels");
        assert_eq!((part.kernels.len(), part.edges.len(), part.cuts.len()), (2, 1, 0));
        let part = sample().part(2, 3).expect("there are three kernels");
        assert_eq!((part.kernels.len(), part.edges.len(), part.cuts.as_slice()), (2, 0, &[1][..]));
        assert!(sample().part(0, 1).is_none() && sample().part(2, 4).is_none() && sample().part(3, 2).is_none());
    }

    #[test]
    fn words_are_short() {
        let kernel = Kernel {
            ops: ["float_mul_scalar", "float_mul", "float_add", "int_equal_elem"].map(String::from).to_vec(),
            ..Kernel::default()
        };
        assert_eq!(kernel.words(), ["mul ×2", "add", "equal"]);
    }

    #[test]
    fn hidden_blocks_hand_their_edges_on() {
        let edge = |from, to| Edge { from, to, ..Edge::default() };
        let mut step = Step {
            kernels: vec![Kernel::default(); 11],
            edges: vec![edge(0, 1), edge(1, 2), edge(3, 4), edge(4, 5), edge(9, 10)],
            ..Step::default()
        };
        step.blocks = vec![Block { start: 1, len: 3, times: 3 }];
        assert_eq!(step.shown(), [0, 1, 2, 3, 10]);
        let shown: Vec<(usize, usize)> = step.shown_edges().iter().map(|e| (e.from, e.to)).collect();
        assert_eq!(shown, [(0, 1), (1, 2), (3, 10)]);
    }

    #[test]
    fn bytes_have_two_digits() {
        assert_eq!([999, 1_500, 131_072, 52_428_800].map(bytes), ["999 B", "1.5 kB", "131 kB", "52 MB"]);
    }
}
