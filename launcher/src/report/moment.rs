//! Moments as text, in UTC: `2026-01-31T12:00:00.250Z` for files, `20260131-120000` for names.

use std::time::{SystemTime, UNIX_EPOCH};

/// RFC 3339 with milliseconds.
pub fn rfc3339(moment: SystemTime) -> String {
    let (date, time, millis) = parts(moment);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{millis:03}Z",
        date.0, date.1, date.2, time.0, time.1, time.2
    )
}

/// Sorts as the moments do, and is a good file name.
pub fn compact(moment: SystemTime) -> String {
    let (date, time, _) = parts(moment);
    format!("{:04}{:02}{:02}-{:02}{:02}{:02}", date.0, date.1, date.2, time.0, time.1, time.2)
}

type Triple = (u64, u64, u64);

fn parts(moment: SystemTime) -> (Triple, Triple, u32) {
    // A clock before 1970 is shown as 1970.
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    (date(days), (second / 3600, second / 60 % 60, second % 60), since.subsec_millis())
}

/// Year, month, day of a day since 1970-01-01: Howard Hinnant's `civil_from_days`, for days from 1970 on.
/// Years start in March, so that the leap day is the last.
fn date(days: u64) -> Triple {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn check(seconds: u64, millis: u64, expected: &str) {
        let moment = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(millis);
        assert_eq!(rfc3339(moment), expected);
    }

    #[test]
    fn known_moments_are_named() {
        check(0, 0, "1970-01-01T00:00:00.000Z");
        check(951_782_399, 250, "2000-02-28T23:59:59.250Z");
        check(951_782_400, 0, "2000-02-29T00:00:00.000Z");
        check(1_709_251_199, 0, "2024-02-29T23:59:59.000Z");
        check(4_102_444_800, 0, "2100-01-01T00:00:00.000Z");
        assert_eq!(compact(UNIX_EPOCH + Duration::from_secs(951_782_399)), "20000228-235959");
    }
}
