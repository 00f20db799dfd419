//! Splits the text of a tile program into tokens that know their place.

/// A piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// A name, number or type.
    Word(&'t str),
    /// `%name`, without the sign.
    Value(&'t str),
    /// A single character.
    Mark(char),
    /// The end of the text.
    End,
}

impl Token<'_> {
    /// As an error shows it.
    pub(super) fn shown(self) -> String {
        match self {
            Token::Word(word) => format!("`{word}`"),
            Token::Value(name) => format!("`%{name}`"),
            Token::Mark(mark) => format!("`{mark}`"),
            Token::End => "the end".into(),
        }
    }
}

/// A token and where it begins, counted from 1; columns count characters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spanned<'t> {
    pub(super) token: Token<'t>,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// All tokens, the last one [`Token::End`].  What follows `//` on a line is a comment.
pub(super) fn tokens(text: &str) -> Vec<Spanned<'_>> {
    let mut out = Vec::new();
    let mut lines = 1;
    for (index, full) in text.lines().enumerate() {
        lines = index + 1;
        let code = full.split("//").next().unwrap_or_default();
        let mut at = 0;
        while let Some(first) = code[at..].chars().next() {
            let rest = &code[at..];
            let (token, len) = match first {
                c if c.is_whitespace() => {
                    at += c.len_utf8();
                    continue;
                }
                '%' => {
                    let len = rest[1..].find(|c: char| !is_word(c)).unwrap_or(rest.len() - 1);
                    (Token::Value(&rest[1..=len]), 1 + len)
                }
                c if is_word(c) || c == '-' => {
                    let len = word(rest);
                    (Token::Word(&rest[..len]), len)
                }
                c => (Token::Mark(c), c.len_utf8()),
            };
            out.push(Spanned { token, line: lines, column: code[..at].chars().count() + 1 });
            at += len;
        }
    }
    out.push(Spanned { token: Token::End, line: lines + 1, column: 1 });
    out
}

fn is_word(c: char) -> bool {
    c == '_' || c == '.' || c.is_ascii_alphanumeric()
}

/// Length of a word; a sign belongs to a number that it starts, or whose exponent it starts.
fn word(text: &str) -> usize {
    let number = !text.starts_with(char::is_alphabetic) && !text.starts_with("0x");
    let mut last = ' ';
    for (at, c) in text.char_indices() {
        let sign = (at == 0 || number && last == 'e') && (c == '-' || c == '+');
        if !is_word(c) && !sign {
            return at;
        }
        last = c;
    }
    text.len()
}
