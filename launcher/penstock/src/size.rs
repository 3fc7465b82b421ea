//! Amounts of memory as people write them: `512MiB`, `1.5GiB`, `2G`, or plain bytes.

/// Bytes that `text` stands for, at least one. Decimal and binary units mean what they say: MB is 10^6, MiB and M 2^20.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    parse_or_none(text).and_then(|bytes| if bytes == 0 { Err(refusal(text)) } else { Ok(bytes) })
}

/// The same for what may be left out altogether by a 0.
pub(crate) fn parse_or_none(text: &str) -> Result<u64, String> {
    let refuse = || refusal(text);
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(refuse()),
    };
    match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(unit).ok_or_else(refuse),
        // A cast saturates; such an amount is refused by whoever is to provide it.
        Err(_) => Ok((number.parse::<f64>().map_err(|_| refuse())? * unit as f64) as u64),
    }
}

fn refusal(text: &str) -> String {
    format!("{text:?} is not an amount of memory: write e.g. 512MiB, 2GiB or plain bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_nonsense_is_refused() {
        for (text, bytes) in
            [("512MiB", 512 << 20), ("1.5 GiB", 3 << 29), ("2g", 2 << 30), ("10MB", 10_000_000), ("7", 7)]
        {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "0", "-1", "1 parsec", "99999999999999999999TiB1", "18446744073709551615k"] {
            assert!(parse(text).is_err(), "{text}");
        }
        for text in ["0", "0MiB", "0.0"] {
            assert_eq!(parse_or_none(text), Ok(0), "{text}");
        }
    }
}
