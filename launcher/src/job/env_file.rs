//! A file of variables: `NAME=VALUE`, one a line.

/// The variables of `text`. Empty lines and those that begin with `#` say nothing; `export` in front and quotes around
/// a value are a shell's. The error is one line.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut variables = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line
            .strip_prefix("export ")
            .unwrap_or(line)
            .split_once('=')
            .filter(|(name, _)| !name.trim().is_empty())
            .ok_or_else(|| format!("line {}: {line:?} is no variable: write NAME=VALUE", number + 1))?;
        variables.push((name.trim().to_owned(), unquoted(value.trim()).to_owned()));
    }
    Ok(variables)
}

fn unquoted(value: &str) -> &str {
    let within = |quote| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    within('"').or_else(|| within('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_variables() {
        let read = parse("# mine\nA=1\n\nexport B = \"two words\"\nC='x=y'\nD=\n").unwrap();
        let expected = [("A", "1"), ("B", "two words"), ("C", "x=y"), ("D", "")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(parse("A=1\nB").unwrap_err(), "line 2: \"B\" is no variable: write NAME=VALUE");
        assert!(parse("=1").is_err());
    }
}
