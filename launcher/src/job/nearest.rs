//! The spelling that was meant.

/// The one of `known` that `word` is a slip of the finger away from.
pub(super) fn slip_of<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = plain(word);
    let wrong = |known: &&str| strsim::damerau_levenshtein(&word, &plain(known));
    let found = known.into_iter().min_by_key(wrong)?;
    (wrong(&found) <= (word.len() / 3).max(1)).then_some(found)
}

/// The same, or one that is a part of the other: `workers` for `numWorkers`.
pub(super) fn nearest<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
) -> Option<&'a str> {
    let known = known.into_iter();
    let plain_word = plain(word);
    let holds = |found: &&str| {
        let found = plain(found);
        found.len().min(plain_word.len()) >= 4 && (found.contains(&plain_word) || plain_word.contains(&found))
    };
    slip_of(word, known.clone()).or_else(|| { known }.find(holds))
}

/// `, did you mean numWorkers?`, or nothing.
pub(super) fn did_you_mean<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str, IntoIter: Clone>,
) -> String {
    nearest(word, known).map(|found| format!(", did you mean {found}?")).unwrap_or_default()
}

/// `num_workers`, `num-workers` and `numWorkers` are one word.
pub(super) fn plain(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '_' | '-')).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_understood_and_strangers_are_not() {
        let known = ["numWorkers", "numPs", "name", "args", "evaluator"];
        let check = |word, expected| assert_eq!(nearest(word, known), expected, "{word}");
        check("numWorker", Some("numWorkers"));
        check("num_workres", Some("numWorkers"));
        check("workers", Some("numWorkers"));
        check("numberOfWorkers", Some("numWorkers"));
        check("evaluatorr", Some("evaluator"));
        check("nme", Some("name"));
        check("colour", None);
        check("x", None);
    }
}
