//! What a daemon tells of itself on `/metrics`, as far as a summary keeps it.
//!
//! In: the Prometheus text format. Out: a flat map of every `penstock_*` and `process_*` series.

use std::collections::BTreeMap;

use serde_json::Number;

/// The labels of a series.
pub type Labels = BTreeMap<String, String>;

/// Series (`name` or `name{label="value"}`) → value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics(pub BTreeMap<String, Number>);

impl Metrics {
    /// Lines that are not understood are left out, as scrapers do.
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(series).collect())
    }

    /// The sum over all label values of a metric; `None` if there is none of that name.
    pub fn total(&self, name: &str) -> Option<f64> {
        let of_name = self.0.iter().filter(|(series, _)| series.split('{').next() == Some(name));
        of_name.filter_map(|(_, value)| value.as_f64()).reduce(|sum, value| sum + value)
    }

    /// The same, for metrics that count.
    pub fn count(&self, name: &str) -> Option<u64> {
        // Negative and fractional counts do not exist; a cast of one saturates.
        self.total(name).map(|total| total.round() as u64)
    }

    /// The metrics whose names begin so: the rest of the name, labels and value.
    pub fn labelled<'a>(&'a self, prefix: &str) -> impl Iterator<Item = (&'a str, Labels, f64)> {
        self.0.iter().filter_map(move |(series, value)| {
            let (name, of_name) = series.strip_prefix(prefix)?.split_once('{')?;
            Some((name, labels(of_name), value.as_f64()?))
        })
    }

    pub fn peak_memory_bytes(&self) -> Option<u64> {
        self.count("process_resident_memory_peak_bytes")
    }

    pub fn cpu_seconds(&self) -> Option<f64> {
        self.total("process_cpu_seconds_total")
    }
}

/// `name{labels} value` with an optional time behind it. A label's value may hold blanks and braces.
fn series(line: &str) -> Option<(String, Number)> {
    if !line.starts_with("penstock_") && !line.starts_with("process_") {
        return None;
    }
    let end = match line.rfind('}') {
        Some(brace) => brace + 1,
        None => line.find(' ')?,
    };
    let (name, rest) = line.split_at(end);
    let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
    // Whole numbers stay whole, for those who read the file.
    let whole = value.fract() == 0.0 && value.abs() < 9e15;
    let number = if whole { Number::from(value as i64) } else { Number::from_f64(value)? };
    Some((name.to_owned(), number))
}

/// `key="value",…}`; in a value, quotes, backslashes and line ends are escaped.
fn labels(mut text: &str) -> Labels {
    let mut labels = Labels::new();
    while let Some((key, rest)) = text.split_once("=\"") {
        let (mut value, mut chars) = (String::new(), rest.chars());
        loop {
            match chars.next() {
                Some('\\') => {
                    let escaped = chars.next().map(|escaped| if escaped == 'n' { '\n' } else { escaped });
                    value.extend(escaped);
                }
                Some('"') | None => break,
                Some(other) => value.push(other),
            }
        }
        labels.insert(key.trim_start_matches(',').to_owned(), value);
        text = chars.as_str();
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_read_and_summed() {
        let metrics = Metrics::parse(
            "# TYPE penstock_gateway_rows_total counter\n\
             penstock_gateway_rows_total{dataset=\"a b}\"} 1400\n\
             penstock_gateway_rows_total{dataset=\"c\"} 37 1700000000\n\
             penstock_gateway_rows_totally 5\n\
             penstock_gateway_step_seconds{quantile=\"0.5\"} 0.25\n\
             process_resident_memory_peak_bytes 1048576\n\
             process_cpu_seconds_total 2.5\n\
             go_threads 7\n\
             penstock_broken\n",
        );
        assert_eq!(metrics.count("penstock_gateway_rows_total"), Some(1437));
        assert_eq!(metrics.count("penstock_sidecar_rows_total"), None);
        assert_eq!(metrics.peak_memory_bytes(), Some(1 << 20));
        assert_eq!(metrics.cpu_seconds(), Some(2.5));
        assert_eq!(metrics.0.len(), 6);
        assert_eq!(metrics.0["penstock_gateway_rows_totally"].to_string(), "5");
    }
}
