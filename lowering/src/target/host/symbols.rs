//! Reads the names that an ELF object wants from elsewhere.  Knows nothing of what they mean.

/// Names of the undefined symbols of a 64-bit little-endian ELF object, in its order; `None` where it is not one.
pub fn undefined(object: &[u8]) -> Option<Vec<String>> {
    if object.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let bytes = object.get(at..at + bytes)?;
        Some(bytes.iter().rev().fold(0, |n, &b| n << 8 | usize::from(b)))
    };
    let (table, size, count) = (number(0x28, 8)?, number(0x3a, 2)?, number(0x3c, 2)?);
    let mut names = Vec::new();
    for section in (0..count).map(|i| table + i * size) {
        const SYMBOL_TABLE: usize = 2;
        if number(section + 4, 4)? != SYMBOL_TABLE {
            continue;
        }
        let (at, length, strings) = (number(section + 24, 8)?, number(section + 32, 8)?, number(section + 40, 4)?);
        let strings = number(table + strings * size + 24, 8)?;
        for symbol in (at..at + length).step_by(24) {
            let (name, section) = (number(symbol, 4)?, number(symbol + 6, 2)?);
            if name != 0 && section == 0 {
                let text = object.get(strings + name..)?;
                let end = text.iter().position(|&b| b == 0)?;
                names.push(String::from_utf8_lossy(&text[..end]).into_owned());
            }
        }
    }
    Some(names)
}
