//! Names as people can read them, in one line.

use std::borrow::Cow;

/// A text whose control characters and backslashes are escaped as in Rust's texts; most have none.
pub(crate) fn legible(text: &str) -> Cow<'_, str> {
    if !text.contains(|letter: char| letter.is_control() || letter == '\\') {
        return Cow::Borrowed(text);
    }
    let escaped = text.chars().map(|letter| match letter {
        '\\' => letter.escape_default().to_string(),
        _ if letter.is_control() => letter.escape_default().to_string(),
        _ => letter.to_string(),
    });
    Cow::Owned(escaped.collect())
}

/// The text that [`legible`] made such; what it never makes stays as it is.
pub(crate) fn meant(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut meant = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\\') {
        meant.push_str(before);
        let (letter, after) = letter(escape).unwrap_or(('\\', escape));
        meant.push(letter);
        rest = after;
    }
    meant.push_str(rest);
    Cow::Owned(meant)
}

/// The letter that is written behind a backslash, and what comes behind it.
fn letter(escape: &str) -> Option<(char, &str)> {
    if let Some(hex) = escape.strip_prefix("u{") {
        let (digits, after) = hex.split_once('}')?;
        return Some((char::from_u32(u32::from_str_radix(digits, 16).ok()?)?, after));
    }
    let mut letters = escape.chars();
    let letter = match letters.next()? {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        '\\' => '\\',
        _ => return None,
    };
    Some((letter, letters.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_legible_is_one_line_and_is_read_back() {
        for (text, shown) in [
            ("data/a b%20[1].parquet", "data/a b%20[1].parquet"),
            ("a\nb", r"a\nb"),
            (r"a\nb", r"a\\nb"),
            ("\u{1b}[31m\r\t\u{7f}\u{85}ä", r"\u{1b}[31m\r\t\u{7f}\u{85}ä"),
            ("\\", r"\\"),
        ] {
            assert_eq!(legible(text), shown);
            assert_eq!(meant(shown), text);
        }
        assert_eq!(meant(r"\x\u{zz}"), r"\x\u{zz}");
    }
}
