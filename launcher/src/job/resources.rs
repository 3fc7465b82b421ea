//! What a task takes of a machine, as people write it: `memory=8G,vcores=4,gpus=2`.

use super::nearest::did_you_mean;

/// What a task takes of a machine; nothing is said by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resources {
    pub memory_bytes: Option<u64>,
    pub vcores: Option<u32>,
    pub gpus: Option<u32>,
}

/// How a system writes memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// `8G` and `8Gi` are 2^33 bytes; a bare number is in doubt, and refused.
    Own,
    /// The same, and a bare number counts MiB.
    Hadoop,
    /// `8G` is 8·10^9 bytes, `8Gi` 2^33; a bare number counts bytes.
    Kubernetes,
}

impl Memory {
    /// Bytes. The error is one sentence.
    pub(super) fn parse(self, text: &str) -> Result<u64, String> {
        let bad = || format!("{text:?} is no amount of memory: write e.g. 8G or 512M");
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let number: f64 = number.parse().map_err(|_| bad())?;
        let lower = unit.trim().to_ascii_lowercase();
        let power = match lower.strip_suffix('b').unwrap_or(&lower).trim_end_matches('i') {
            "" if lower.is_empty() && self == Self::Own => return Err(bad()),
            "" if lower.is_empty() && self == Self::Hadoop => 2,
            "" => 0,
            "k" => 1,
            "m" => 2,
            "g" => 3,
            "t" => 4,
            _ => return Err(bad()),
        };
        let base: f64 = if self == Self::Kubernetes && !lower.contains('i') { 1000.0 } else { 1024.0 };
        // No machine has as much as a float cannot count.
        Ok((number * base.powi(power)).ceil() as u64)
    }
}

impl Resources {
    /// `NAME=AMOUNT,…` with Submarine's names beside ours. The error is one sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_in(text, Memory::Own)
    }

    pub(super) fn parse_in(text: &str, memory: Memory) -> Result<Self, String> {
        let mut resources = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, amount) = part
                .split_once('=')
                .ok_or_else(|| format!("{part:?} says no amount: write e.g. memory=8G,vcores=4,gpus=2"))?;
            resources.set(name.trim(), amount.trim(), memory)?;
        }
        Ok(resources)
    }

    /// One resource.
    pub(super) fn of(name: &str, amount: &str, memory: Memory) -> Result<Self, String> {
        let mut one = Self::default();
        one.set(name, amount, memory)?;
        Ok(one)
    }

    pub(super) fn set(&mut self, name: &str, amount: &str, memory: Memory) -> Result<(), String> {
        match name {
            "memory" | "mem" => self.memory_bytes = Some(memory.parse(amount)?),
            "memory-mb" => self.memory_bytes = Some(Memory::Hadoop.parse(amount)?),
            "vcores" | "cores" | "cpu" | "cpus" => self.vcores = Some(cores(amount)?),
            "gpus" | "gpu" | "yarn.io/gpu" | "nvidia.com/gpu" => self.gpus = Some(whole(amount)?),
            other => {
                let meant = did_you_mean(other, ["memory", "vcores", "gpus"]);
                return Err(format!("there is no resource {other:?}{meant}: write memory, vcores or gpus"));
            }
        }
        Ok(())
    }

    pub(super) fn or(self, below: Self) -> Self {
        Self {
            memory_bytes: self.memory_bytes.or(below.memory_bytes),
            vcores: self.vcores.or(below.vcores),
            gpus: self.gpus.or(below.gpus),
        }
    }
}

fn whole(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("{text:?} is no whole number"))
}

/// `2`, `1.5` or Kubernetes' `1500m`; a part of a core takes a whole one.
fn cores(text: &str) -> Result<u32, String> {
    let bad = || format!("{text:?} is no number of cores");
    let (number, scale) = text.strip_suffix('m').map_or((text, 1.0), |milli| (milli, 1000.0));
    let number: f64 = number.parse().map_err(|_| bad())?;
    let cores = (number / scale).ceil();
    if (0.0..1e6).contains(&cores) { Ok(cores as u32) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, memory: Memory, expected: &str) {
        let shown = match Resources::parse_in(text, memory) {
            Ok(Resources { memory_bytes, vcores, gpus }) => format!("{memory_bytes:?} {vcores:?} {gpus:?}"),
            Err(refusal) => refusal,
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn amounts_are_read_as_their_system_means_them() {
        use Memory::{Hadoop, Kubernetes, Own};
        check("memory=8G,vcores=4,gpus=2", Own, "Some(8589934592) Some(4) Some(2)");
        check("memory=1.5GiB", Own, "Some(1610612736) None None");
        check("memory-mb=2048,vcores=2,yarn.io/gpu=1", Own, "Some(2147483648) Some(2) Some(1)");
        check("memory=2048", Hadoop, "Some(2147483648) None None");
        check("memory=1G,cpu=500m", Kubernetes, "Some(1000000000) Some(1) None");
        check("memory=1Gi", Kubernetes, "Some(1073741824) None None");
        check("memory=100", Kubernetes, "Some(100) None None");
        check("", Own, "None None None");
    }

    #[test]
    fn nonsense_is_refused() {
        use Memory::Own;
        check("memory=8192", Own, "\"8192\" is no amount of memory: write e.g. 8G or 512M");
        check("memory=8X", Own, "\"8X\" is no amount of memory: write e.g. 8G or 512M");
        check("memory", Own, "\"memory\" says no amount: write e.g. memory=8G,vcores=4,gpus=2");
        check(
            "gups=1",
            Own,
            "there is no resource \"gups\", did you mean gpus?: write memory, vcores or gpus",
        );
        check("gpus=1.5", Own, "\"1.5\" is no whole number");
        check("cpu=-1", Own, "\"-1\" is no number of cores");
        check("cpu=NaN", Own, "\"NaN\" is no number of cores");
    }
}
