//! One line: its keys or its tagged keys in order, and the results that they stand for.

use kiln_lowering::schedule::Sort;

use super::radix;
use super::word::{Item, LOW, Order, Word};

/// What every line of a sort has in common.
#[derive(Clone, Copy)]
pub(super) struct Line<W> {
    order: Order<W>,
    /// How many of the sorted elements are wanted.
    pub(super) keep: usize,
    /// Whether those are so few that the rest need not be sorted.
    pub(super) few: bool,
}

impl<W: Word> Line<W> {
    pub(super) fn new(sort: &Sort) -> Line<W> {
        let keep = sort.dims[sort.axis as usize] as usize;
        Line { order: Order::new(sort.dtype, sort.descending), keep, few: keep * 8 <= sort.len as usize }
    }
}

/// How lines become results, by way of items that sort.
pub(super) trait Work<W: Word>: Sync {
    /// What is sorted.
    type Item: Item;
    /// What comes out.
    type Out: Copy + Default + Send + Sync;

    /// The line.
    fn line(&self) -> &Line<W>;
    /// The item of an element with its index.
    fn item(&self, x: W, index: u32) -> Self::Item;
    /// The bytes of an item by which it is sorted: the first, and their number.
    fn bytes(&self) -> (u32, u32);
    /// Results of items.
    fn write(&self, line: &[W], items: &[Self::Item], out: &mut [Self::Out]);
    /// Puts right what the items do not tell, once all results of a line are written.
    fn mend(&self, _line: &[W], _items: &[Self::Item], _out: &mut [Self::Out]) {}

    /// Sorts a part of a line, which starts at index `start`.
    fn sort(&self, part: &[W], start: usize, items: &mut [Self::Item], scratch: &mut [Self::Item]) {
        let (low, bytes) = self.bytes();
        items.iter_mut().zip(part).zip(start as u32..).for_each(|((item, &x), i)| *item = self.item(x, i));
        radix::sort(items, scratch, low, bytes);
    }

    /// The first items of a part of a line, which starts at index `start`, as many as are wanted.
    fn first(&self, part: &[W], start: usize, items: &mut Vec<Self::Item>) {
        let all = part.iter().zip(start as u32..).map(|(&x, i)| self.item(x, i));
        radix::first(all, self.line().keep, items);
    }
}

/// All values, by their keys alone.
pub(super) struct Values<W>(pub Line<W>);

impl<W: Word> Work<W> for Values<W> {
    type Item = W;
    type Out = W;

    fn line(&self) -> &Line<W> {
        &self.0
    }

    fn item(&self, x: W, _: u32) -> W {
        self.0.order.key(x)
    }

    fn bytes(&self) -> (u32, u32) {
        (0, W::BYTES)
    }

    fn write(&self, _: &[W], items: &[W], out: &mut [W]) {
        out.iter_mut().zip(items).for_each(|(out, &key)| *out = self.0.order.element(key));
    }

    /// Zeros of both signs, and NaN of all kinds, come in the order in which they were.
    fn mend(&self, line: &[W], items: &[W], out: &mut [W]) {
        for key in self.0.order.ambiguous() {
            let end = |before: &dyn Fn(W) -> bool| items.partition_point(|&item| before(item)).min(out.len());
            let run = end(&|item| item < key)..end(&|item| item <= key);
            if !run.is_empty() {
                let originals = line.iter().filter(|&&x| self.0.order.key(x) == key);
                out[run].iter_mut().zip(originals).for_each(|(out, &x)| *out = x);
            }
        }
    }
}

/// What stands for the indices that tagged keys carry: themselves as numbers of some type, or the line's elements there.
pub(super) struct Indexed<W, U>(pub Line<W>, pub fn(&[W], u32) -> U);

impl<W: Word, U: Copy + Default + Send + Sync> Work<W> for Indexed<W, U> {
    type Item = W::Tagged;
    type Out = U;

    fn line(&self) -> &Line<W> {
        &self.0
    }

    fn item(&self, x: W, index: u32) -> W::Tagged {
        self.0.order.key(x).tagged(index)
    }

    fn bytes(&self) -> (u32, u32) {
        (LOW, W::BYTES)
    }

    fn write(&self, line: &[W], items: &[W::Tagged], out: &mut [U]) {
        out.iter_mut().zip(items).for_each(|(out, &item)| *out = self.1(line, W::index(item)));
    }
}
