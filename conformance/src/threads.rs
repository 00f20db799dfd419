//! Work on all threads of this computer.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

/// What `work` gives for each item, in their order, as far as it gives something.
pub fn filter_map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> Option<R> + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut made = Vec::new();
        loop {
            let at = next.fetch_add(1, Relaxed);
            let Some(item) = items.get(at) else { return made };
            made.extend(work(item).map(|result| (at, result)));
        }
    };
    let mut all: Vec<(usize, R)> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..thread::available_parallelism().map_or(1, usize::from)).map(|_| scope.spawn(run)).collect();
        // What a thread panics with is the caller's to see.
        let made = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|e| std::panic::resume_unwind(e)));
        made.flatten().collect()
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::filter_map;

    #[test]
    fn results_come_in_the_order_of_items() {
        let items: Vec<u32> = (0..1000).collect();
        let odd = filter_map(&items, |&item| (item % 2 == 1).then_some(item * 10));
        assert_eq!(odd, (0..500).map(|i| i * 20 + 10).collect::<Vec<_>>());
    }
}
