//! What a misspelt name was meant to be, and how a name is written.

/// Near names, or else the first few there are.
pub fn hint(name: &str, known: &[&str]) -> String {
    const SHOWN: usize = 8;
    let quoted = |names: &[&str]| names.iter().map(|n| format!("{n:?}")).collect::<Vec<_>>().join(", ");
    let letters = name.chars().count();
    // Of a name of one letter any other would be near.
    let allowed = letters.div_ceil(3).min(letters.saturating_sub(1));
    let mut near: Vec<(usize, &str)> = known
        .iter()
        .map(|&known| (distance(&name.to_lowercase(), &known.to_lowercase()), known))
        .filter(|(distance, _)| *distance <= allowed)
        .collect();
    near.sort_unstable();
    if !near.is_empty() {
        let near: Vec<&str> = near.into_iter().map(|(_, known)| known).take(3).collect();
        return format!("did you mean {}?", quoted(&near));
    }
    match known {
        [] => "it has no columns".to_owned(),
        _ if known.len() <= SHOWN => format!("it has {}", quoted(known)),
        _ => format!("it has {} and {} more", quoted(&known[..SHOWN]), known.len() - SHOWN),
    }
}

/// A column's name as SQL has it: in double quotes where there is more to it than letters, digits and `_`.
pub fn sql_name(name: &str) -> String {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let is_word = name.chars().all(is_letter) && name.starts_with(|first: char| !first.is_ascii_digit());
    // The few that no column is called without quotes.
    let is_taken = ["all", "any", "trim", "struct", "interval", "exists", "from"]
        .iter()
        .any(|taken| name.eq_ignore_ascii_case(taken));
    if is_word && !is_taken { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Letters to insert, delete or replace (Levenshtein), by one row of the table at a time.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_what_is_near_or_what_there_is() {
        assert_eq!(hint("lable", &["label", "image"]), r#"did you mean "label"?"#);
        assert_eq!(hint("Label", &["label"]), r#"did you mean "label"?"#);
        assert_eq!(hint("x", &["a", "b"]), r#"it has "a", "b""#);
        assert_eq!(hint("weight", &["label", "image"]), r#"it has "label", "image""#);
        let names = ["id", "_x1", "a.b", "1st", "größe", "say \"x\"", "From", ""].map(sql_name);
        assert_eq!(
            names,
            ["id", "_x1", r#""a.b""#, r#""1st""#, r#""größe""#, r#""say ""x""""#, r#""From""#, r#""""#]
        );
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
