//! Finds blocks that repeat one after the other in a step, as the layers of a network do: one of them stands for all.

/// A block of kernels that comes several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its first kernel.
    pub start: usize,
    /// Number of kernels.
    pub len: usize,
    /// How often it comes.
    pub times: usize,
}

/// Shortest block that is worth folding.
const SHORTEST: usize = 3;

/// Disjoint blocks of a sequence, by start.
pub fn blocks<T: PartialEq>(items: &[T]) -> Vec<Block> {
    let mut found = Vec::new();
    search(items, 0, &mut found);
    found.sort_by_key(|block: &Block| block.start);
    found
}

/// Takes the block that hides most, then looks on both sides of it.
fn search<T: PartialEq>(items: &[T], offset: usize, found: &mut Vec<Block>) {
    let mut best: Option<Block> = None;
    for len in SHORTEST..=items.len() / 2 {
        let mut run = 0;
        for at in (0..items.len() - len).rev() {
            run = if items[at] == items[at + len] { run + 1 } else { 0 };
            let times = run / len + 1;
            let hides = |block: Block| block.len * (block.times - 1);
            let block = Block { start: at, len, times };
            if times > 1
                && best.is_none_or(|best| {
                    hides(block) >= hides(best) && block.len <= best.len || hides(block) > hides(best)
                })
            {
                best = Some(block);
            }
        }
    }
    let Some(block) = best else { return };
    let end = block.start + block.len * block.times;
    found.push(Block { start: block.start + offset, ..block });
    search(&items[..block.start], offset, found);
    search(&items[end..], offset + end, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_folded_forwards_and_backwards() {
        let text: Vec<char> = "xabcdabcdabcdabcdyzefgefgefgefw".chars().collect();
        let wanted = [Block { start: 1, len: 4, times: 4 }, Block { start: 19, len: 3, times: 3 }];
        assert_eq!(blocks(&text), wanted);
    }

    #[test]
    fn pairs_and_single_blocks_stay() {
        assert_eq!(blocks(&"ababab".chars().collect::<Vec<_>>()), []);
        assert_eq!(blocks(&"abcdef".chars().collect::<Vec<_>>()), []);
        assert_eq!(blocks::<char>(&[]), []);
    }
}
