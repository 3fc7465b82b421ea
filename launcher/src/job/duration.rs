//! `10s`, `500ms`, `5m`, `1h`, or plain seconds: lengths of time as people write them.

use std::time::Duration;

/// Text that is no length of time.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not a length of time: write e.g. 500ms, 10s, 5m or 1h")]
pub struct BadDuration(String);

/// The length of time that `text` names.
pub fn parse_duration(text: &str) -> Result<Duration, BadDuration> {
    let bad = || BadDuration(text.to_owned());
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| bad())?;
    let millis = match unit.trim_start() {
        "ms" => 1,
        "s" | "" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(bad()),
    };
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_and_nonsense_is_refused() {
        let read = |text| parse_duration(text).map(|length| length.as_millis());
        assert_eq!(read("500ms"), Ok(500));
        assert_eq!(read("10s"), Ok(10_000));
        assert_eq!(read("7"), Ok(7_000));
        assert_eq!(read("5 m"), Ok(300_000));
        assert_eq!(read("1h"), Ok(3_600_000));
        for bad in ["", "s", "10 parsecs", "-1s", "99999999999999999999h", "9999999999999999999h"] {
            assert_eq!(read(bad), Err(BadDuration(bad.to_owned())));
        }
    }
}
