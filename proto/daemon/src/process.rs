//! What the kernel knows of this process, as metrics.

use metrics::gauge;

/// Refreshes the `process_*` metrics from `/proc`; what cannot be read stays as it was.
pub(crate) fn refresh() {
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        for (field, name) in
            [("VmRSS:", "process_resident_memory_bytes"), ("VmHWM:", "process_resident_memory_peak_bytes")]
        {
            if let Some(kib) = status_kib(&status, field) {
                gauge!(name).set((kib * 1024) as f64);
            }
        }
    }
    if let Some(ticks) = std::fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(cpu_ticks) {
        // Rises only, but a counter of this recorder holds integers.
        let seconds = ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64;
        gauge!("process_cpu_seconds_total").set(seconds);
    }
}

fn status_kib(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

/// User and system time together. The command name may hold spaces, so fields count from its end.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let after_name = stat.rsplit_once(')')?.1;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_read_by_field() {
        assert_eq!(status_kib("Name:\tx\nVmRSS:\t   120 kB\n", "VmRSS:"), Some(120));
        assert_eq!(cpu_ticks("7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0"), Some(42));
        assert!(std::fs::read_to_string("/proc/self/stat").is_ok_and(|stat| cpu_ticks(&stat).is_some()));
    }
}
