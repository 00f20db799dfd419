//! Reads a Rust file into lines of code, comments and strings, and marks what belongs to tests. It is no parser: it
//! knows literals, comments and braces.

/// One Rust file.
pub struct Source {
    /// From the root, with `/`.
    pub path: String,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// One line, taken apart.
#[derive(Debug, Default, Clone)]
pub struct Line {
    /// The code, with comments and the insides of strings left out.
    pub code: String,
    /// The text of comments, their marks included.
    pub comment: String,
    /// The insides of strings.
    pub strings: String,
    /// Whether only tests see it.
    pub test: bool,
}

impl Source {
    /// Takes a file apart.
    pub fn read(path: String, text: &str) -> Self {
        let mut lines = split(text);
        let whole_file = path.split('/').any(|part| matches!(part, "tests" | "benches")) || path.ends_with("/tests.rs");
        if whole_file {
            lines.iter_mut().for_each(|line| line.test = true);
        } else {
            mark_test_items(&mut lines);
        }
        Self { path, lines }
    }

    /// Lines with their numbers from 1.
    pub fn numbered(&self) -> impl Iterator<Item = (usize, &Line)> {
        self.lines.iter().enumerate().map(|(at, line)| (at + 1, line))
    }
}

/// Marks the files of modules that are declared under `#[cfg(test)]`.
pub fn mark_test_files(sources: &mut [Source]) {
    let declared: Vec<String> = sources.iter().flat_map(test_module_stems).collect();
    for source in sources {
        let of_tests = declared.iter().any(|stem| {
            let rest = source.path.strip_prefix(stem.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        });
        if of_tests {
            source.lines.iter_mut().for_each(|line| line.test = true);
        }
    }
}

/// Where the files of a file's test modules lie, without `.rs` or `/mod.rs`.
fn test_module_stems(source: &Source) -> Vec<String> {
    let (folder, file) = source.path.rsplit_once('/').unwrap_or(("", &source.path));
    let base = match file {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
        file => format!("{folder}/{}", file.trim_end_matches(".rs")),
    };
    let in_test = source.lines.iter().filter(|line| line.test);
    in_test
        .filter_map(|line| {
            let (_, name) = line.code.trim().strip_suffix(';')?.rsplit_once("mod ")?;
            Some(format!("{base}/{name}"))
        })
        .collect()
}

/// Whether `word` stands in `code` on its own, not inside a longer name.
pub fn has_word(code: &str, word: &str) -> bool {
    let of_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        !code[..at].chars().next_back().is_some_and(of_name)
            && !code[at + word.len()..].chars().next().is_some_and(of_name)
    })
}

enum State {
    Code,
    LineComment,
    BlockComment(usize),
    String,
    RawString(usize),
}

fn split(text: &str) -> Vec<Line> {
    let mut lines = vec![Line::default()];
    let mut state = State::Code;
    let chars: Vec<char> = text.chars().collect();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        if c == '\n' {
            if matches!(state, State::LineComment) {
                state = State::Code;
            }
            lines.push(Line::default());
            at += 1;
            continue;
        }
        let last = lines.len() - 1;
        let line = &mut lines[last];
        let rest = &chars[at..];
        at += match &mut state {
            State::Code => in_code(rest, line, &mut state),
            State::LineComment => {
                line.comment.push(c);
                1
            }
            State::BlockComment(depth) => {
                line.comment.push(c);
                if rest.starts_with(&['/', '*']) {
                    *depth += 1;
                    2
                } else if rest.starts_with(&['*', '/']) {
                    *depth -= 1;
                    if *depth == 0 {
                        state = State::Code;
                    }
                    2
                } else {
                    1
                }
            }
            State::String => match c {
                '"' => {
                    line.code.push('"');
                    state = State::Code;
                    1
                }
                // A backslash at the line's end leaves the newline to the loop above.
                '\\' if rest.get(1) != Some(&'\n') => {
                    line.strings.push(' ');
                    2
                }
                _ => {
                    line.strings.push(c);
                    1
                }
            },
            State::RawString(hashes) => {
                let hashes = *hashes;
                if c == '"' && rest[1..].iter().take_while(|&&c| c == '#').count() >= hashes {
                    line.code.push('"');
                    state = State::Code;
                    1 + hashes
                } else {
                    line.strings.push(c);
                    1
                }
            }
        };
    }
    lines
}

/// One step in code; returns how many characters it took.
fn in_code(rest: &[char], line: &mut Line, state: &mut State) -> usize {
    let c = rest[0];
    let inside_name = line.code.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
    match c {
        '/' if rest.starts_with(&['/', '/']) => {
            line.comment.push_str("//");
            *state = State::LineComment;
            2
        }
        '/' if rest.starts_with(&['/', '*']) => {
            line.comment.push_str("/*");
            *state = State::BlockComment(1);
            2
        }
        '"' => {
            line.code.push('"');
            line.strings.push(' ');
            *state = State::String;
            1
        }
        'r' | 'b' | 'c' if !inside_name => {
            let prefix = rest.iter().take_while(|c| matches!(c, 'r' | 'b' | 'c')).count();
            let hashes = rest[prefix..].iter().take_while(|&&c| c == '#').count();
            let raw = rest[..prefix].contains(&'r') && prefix <= 2 && rest.get(prefix + hashes) == Some(&'"');
            if raw {
                line.code.push('"');
                line.strings.push(' ');
                *state = State::RawString(hashes);
                prefix + hashes + 1
            } else {
                line.code.push(c);
                1
            }
        }
        '\'' => {
            let taken = char_literal(rest);
            line.code.push('\'');
            taken.unwrap_or(1)
        }
        _ => {
            line.code.push(c);
            1
        }
    }
}

/// The length of a character literal; `None` for a lifetime.
fn char_literal(rest: &[char]) -> Option<usize> {
    match rest {
        ['\'', '\\', _, tail @ ..] => Some(3 + tail.iter().position(|&c| c == '\'')? + 1),
        ['\'', _, '\'', ..] => Some(3),
        _ => None,
    }
}

/// Marks each item under `#[cfg(test)]`: up to the brace that closes it, or the semicolon that ends it.
fn mark_test_items(lines: &mut [Line]) {
    let mut at = 0;
    while at < lines.len() {
        let code = lines[at].code.replace(' ', "");
        if code.contains("#[cfg(test)]") || code.contains("#[cfg(all(test,") || code.contains("#[test]") {
            at = mark_item(lines, at);
        } else {
            at += 1;
        }
    }
}

/// Marks from `start` to the end of the item there; returns the line after it.
fn mark_item(lines: &mut [Line], start: usize) -> usize {
    let (mut braces, mut brackets) = (0usize, 0usize);
    for (at, line) in lines.iter_mut().enumerate().skip(start) {
        line.test = true;
        for c in line.code.chars() {
            match c {
                '{' => braces += 1,
                '[' | '(' => brackets += 1,
                ']' | ')' => brackets = brackets.saturating_sub(1),
                '}' if braces <= 1 => return at + 1,
                '}' => braces -= 1,
                ';' if braces == 0 && brackets == 0 => return at + 1,
                _ => {}
            }
        }
    }
    lines.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Line> {
        Source::read("lowering/src/x.rs".into(), text).lines
    }

    #[test]
    fn code_comments_and_strings_are_kept_apart() {
        let lines = read("let s = \"a // b\"; // c \"d\"\nlet r = r#\"x\"y\"#; /* e\nf */ g('\"', 'a', &'b str)");
        assert_eq!(lines[0].code, "let s = \"\"; ");
        assert_eq!(lines[0].strings, " a // b");
        assert_eq!(lines[0].comment, "// c \"d\"");
        assert_eq!(lines[1].code, "let r = \"\"; ");
        assert_eq!(lines[1].strings, " x\"y");
        assert_eq!(lines[2].code, " g(', ', &'b str)");
    }

    #[test]
    fn escapes_do_not_end_literals() {
        let lines = read("f(\"\\\"\", '\\'', '\\\\', b\"\\\\\"); g()\nh(\"a\\\n  b\"); i()");
        assert_eq!(lines[0].code, "f(\"\", ', ', b\"\"); g()");
        assert_eq!(lines[2].code, "\"); i()");
    }

    #[test]
    fn test_items_are_marked() {
        let lines =
            read("fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() { }\n}\nfn c() {}\n#[cfg(test)]\nuse d;\nfn e() {}");
        let marked: Vec<bool> = lines.iter().map(|line| line.test).collect();
        assert_eq!(marked, [false, true, true, true, true, false, true, true, false]);
    }

    #[test]
    fn files_of_test_modules_are_marked() {
        let mut sources = [
            ("a/src/fold/mod.rs", "mod row;\n#[cfg(test)]\nmod exhaustive;\n"),
            ("a/src/fold/exhaustive.rs", "fn f() {}"),
            ("a/src/fold/row.rs", "#[cfg(test)] mod cases;"),
            ("a/src/fold/row/cases.rs", "fn f() {}"),
        ]
        .map(|(path, text)| Source::read(path.into(), text));
        mark_test_files(&mut sources);
        let marked: Vec<bool> = sources.iter().map(|source| source.lines[0].test).collect();
        assert_eq!(marked, [false, true, true, true]);
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("unsafe { x }", "unsafe"));
        assert!(!has_word("unsafe_op_in_unsafe_fn", "unsafe"));
        assert!(!has_word("eprintln!(x)", "println"));
    }
}
