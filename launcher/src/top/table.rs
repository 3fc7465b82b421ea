//! A sample as a person reads it: a line a rank, a line a gateway.

use std::fmt::Write as _;

use super::sample::{GatewayRow, RankRow, Sample};
use crate::report::{human_bytes, human_wait};

const HEADS: [&str; 12] = [
    "RANK", "TASK", "FEED", "ROWS/S", "BYTES/S", "WAIT P50", "P99", "WAITING", "SLOW", "RING", "GPU",
    "VERDICT",
];

impl Sample {
    /// Some lines, columns aligned.
    pub fn to_text(&self) -> String {
        let mut lines = vec![HEADS.map(str::to_owned)];
        lines.extend(self.ranks.iter().map(RankRow::cells));
        let widths: [usize; HEADS.len()] = std::array::from_fn(|column| {
            lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0)
        });
        let mut text = String::new();
        for cells in &lines {
            let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
            add(&mut text, padded.collect::<Vec<_>>().join("  ").trim_end());
        }
        if self.ranks.is_empty() {
            add(&mut text, "no feed was opened yet");
        }
        self.gateways.iter().for_each(|gateway| add(&mut text, &gateway.line()));
        self.silent.iter().for_each(|name| add(&mut text, &format!("{name} does not answer")));
        text
    }
}

impl RankRow {
    fn cells(&self) -> [String; HEADS.len()] {
        let ring = if self.open { format!("{}/{}", self.used_slots, self.slots) } else { "over".to_owned() };
        [
            self.rank.to_string(),
            self.task.clone(),
            self.feed.clone(),
            format!("{:.0}", self.rows_per_second),
            human_bytes(self.bytes_per_second as u64),
            human_wait(self.wait_p50_seconds),
            human_wait(self.wait_p99_seconds),
            format!("{:.0} %", self.waiting * 100.0),
            self.slow_stage.clone().unwrap_or_default(),
            ring,
            self.gpus_busy.map_or_else(|| "-".to_owned(), |busy| format!("{:.0} %", busy * 100.0)),
            self.verdict.clone().unwrap_or_default(),
        ]
    }
}

impl GatewayRow {
    fn line(&self) -> String {
        let (memory, leased) = (human_bytes(self.memory_bytes), human_bytes(self.leased_bytes));
        let sent = match self.bytes_per_second {
            Some(bytes) => format!(", sends {}/s", human_bytes(bytes as u64)),
            None => String::new(),
        };
        format!("{}: {memory} of memory, {leased} leased to streams{sent}", self.name)
    }
}

fn add(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes any text");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rank = |rank: u32, feed: &str, open: bool| RankRow {
            task: format!("worker:{rank}"),
            feed: feed.into(),
            rank,
            open,
            rows_per_second: 1234.4,
            bytes_per_second: 2048.0,
            wait_p50_seconds: 0.0,
            wait_p99_seconds: 0.12,
            waiting: 0.126,
            slow_stage: Some("store".into()),
            gpus_busy: open.then_some(0.31),
            verdict: Some("starved by the feed".into()),
            used_slots: 3,
            slots: 8,
        };
        let gateway = GatewayRow {
            name: "gateway".into(),
            memory_bytes: 45 << 20,
            leased_bytes: 512,
            bytes_per_second: Some(2048.0),
        };
        let sample = Sample {
            ranks: vec![rank(0, "train", true), rank(1, "validation", false)],
            gateways: vec![gateway],
            silent: vec!["worker:2".into()],
        };
        let expected = "\
RANK  TASK      FEED        ROWS/S  BYTES/S  WAIT P50  P99     WAITING  SLOW   RING  GPU   VERDICT
0     worker:0  train       1234    2.0 KiB  0         120 ms  13 %     store  3/8   31 %  starved by the feed
1     worker:1  validation  1234    2.0 KiB  0         120 ms  13 %     store  over  -     starved by the feed
gateway: 45.0 MiB of memory, 512 B leased to streams, sends 2.0 KiB/s
worker:2 does not answer
";
        assert_eq!(sample.to_text(), expected);
    }
}
