//! What a machine's clock decides, where a model would only guess: in which way a product and its tail are computed.  Knows
//! classes, not products: those of about the same size, cut and laid out alike, are decided alike.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::cost::Finished;
use super::grain::Blocks;

/// In which way a product and its tail are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// By the library, with a kernel behind it unless it does the tail itself.
    Library,
    /// By one kernel, which finishes each block of the result while it is at hand.
    Blocks,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 2] = [Way::Library, Way::Blocks];

    /// The other one.
    pub const fn other(self) -> Way {
        match self {
            Way::Library => Way::Blocks,
            Way::Blocks => Way::Library,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Way::Library => "library",
            Way::Blocks => "blocks",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Products that are decided alike: sizes count by the power of two that they reach, blocks by how large they are, factors
/// by how they lie, the tail by what it reads, writes and adds for each element of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class {
    /// Logarithms of rows, columns, terms and members, rounded up.
    sizes: [u8; 4],
    /// Logarithms of rows and columns of a block.
    cut: [u8; 2],
    /// Which factors do not have their rows along their last axis.
    turned: [bool; 2],
    /// Bytes of an element of the factors, and of the product.
    bytes: [u8; 2],
    /// Bytes that the tail reads and writes for an element of the product.
    moved: [u8; 2],
    /// Logarithm of the additions for an element, rounded up.
    additions: u8,
    /// Whether the product itself is wanted, too, and whether the tail is an epilogue of the library's.
    flags: [bool; 2],
}

fn reached(n: u64) -> u8 {
    n.max(1).next_power_of_two().trailing_zeros() as u8
}

impl Class {
    /// The class of a product and its tail, in blocks of that size if in any, of factors of which those are turned.
    pub fn of(asked: &Finished, cut: Blocks, turned: [bool; 2]) -> Class {
        let [rows, columns, terms] = asked.sizes;
        let results = (rows * columns * asked.members).max(1);
        let each = |n: u64| u8::try_from(n / results).unwrap_or(u8::MAX);
        Class {
            sizes: [rows, columns, terms, asked.members].map(reached),
            cut: [cut.rows, cut.columns].map(|n| reached(n.into())),
            turned,
            bytes: asked.bytes.map(|n| n as u8),
            moved: [each(asked.reads), each(asked.writes)],
            additions: reached(asked.additions / results),
            flags: [asked.is_wanted, asked.is_epilogue],
        }
    }
}

/// Its numbers in a row, which [`FromStr`] reads.
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Class { sizes: [m, n, k, members], cut: [rows, columns], turned, bytes: [from, to], .. } = self;
        let Class { moved: [read, written], additions, flags, .. } = self;
        let ([a, b], [wanted, epilogue]) = (turned.map(u8::from), flags.map(u8::from));
        write!(f, "product {m} {n} {k} {members} in {rows} {columns} of {a} {b} {from} {to} ")?;
        write!(f, "tail {read} {written} {additions} {wanted} {epilogue}")
    }
}

impl FromStr for Class {
    type Err = String;

    fn from_str(text: &str) -> Result<Class, String> {
        let wrong = || format!("wanted a class of products, got `{text}`");
        let words: Vec<&str> = text.split(' ').collect();
        let ["product", m, n, k, members, "in", rows, columns, "of", a, b, from, to, "tail", rest @ ..] = &words[..]
        else {
            return Err(wrong());
        };
        let [read, written, additions, wanted, epilogue] = rest else { return Err(wrong()) };
        let number = |word: &str| word.parse::<u8>().map_err(|_| wrong());
        let flag = |word: &str| number(word).and_then(|n| if n > 1 { Err(wrong()) } else { Ok(n == 1) });
        Ok(Class {
            sizes: [number(m)?, number(n)?, number(k)?, number(members)?],
            cut: [number(rows)?, number(columns)?],
            turned: [flag(a)?, flag(b)?],
            bytes: [number(from)?, number(to)?],
            moved: [number(read)?, number(written)?],
            additions: number(additions)?,
            flags: [flag(wanted)?, flag(epilogue)?],
        })
    }
}

/// In which way the products of some classes are to be computed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Choices(Option<Arc<BTreeMap<Class, Way>>>);

impl Choices {
    /// None: a model decides.
    pub const NONE: Choices = Choices(None);

    /// How a class is computed, where that was decided.
    pub fn get(&self, class: &Class) -> Option<Way> {
        self.0.as_ref()?.get(class).copied()
    }

    /// These, and one more or another one.
    pub fn with(&self, class: Class, way: Way) -> Choices {
        let mut all = self.0.as_deref().cloned().unwrap_or_default();
        all.insert(class, way);
        Choices(Some(Arc::new(all)))
    }
}

/// Of several of one class the last.
impl FromIterator<(Class, Way)> for Choices {
    fn from_iter<I: IntoIterator<Item = (Class, Way)>>(all: I) -> Choices {
        let all: BTreeMap<Class, Way> = all.into_iter().collect();
        Choices((!all.is_empty()).then(|| Arc::new(all)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUT: Blocks = Blocks { rows: 128, columns: 256, terms: 64, warps: 8, stages: 4 };

    fn class(rows: u64, turned: bool) -> Class {
        let asked = Finished {
            sizes: [rows, 768, 3072],
            members: 1,
            bytes: [2, 2],
            is_wanted: false,
            reads: 2 * 768 + 2 * 768 * rows,
            writes: 2 * 768 * rows,
            additions: 40 * 768 * rows,
            is_epilogue: false,
        };
        Class::of(&asked, CUT, [false, turned])
    }

    /// A sequence that is one token longer is no reason to measure again; one that is twice as long is.
    #[test]
    fn neighbours_share_a_class() {
        assert_eq!(class(1000, false), class(1001, false));
        assert_ne!(class(1024, false), class(2048, false));
        assert_ne!(class(1024, false), class(1024, true));
    }

    #[test]
    fn classes_survive_being_printed() {
        let text = "product 13 10 12 0 in 7 8 of 0 1 2 2 tail 2 2 6 0 0";
        assert_eq!(class(8192, true).to_string(), text);
        assert_eq!(text.parse(), Ok(class(8192, true)));
        for wrong in ["", "product 1 tail 2", &text.replace("0 0", "0 2"), &text.replace("13", "a"), &text[..30]] {
            assert!(wrong.parse::<Class>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_last_choice_counts() {
        let class = class(1, false);
        let choices = Choices::NONE.with(class, Way::Blocks);
        assert_eq!((Choices::NONE.get(&class), choices.get(&class)), (None, Some(Way::Blocks)));
        assert_eq!(choices.with(class, Way::Blocks.other()).get(&class), Some(Way::Library));
    }
}
