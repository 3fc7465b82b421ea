//! How much memory can be had before the kernel starts to kill.
//!
//! *In:* `/proc/meminfo` and the process's control group. *Out:* a limit in bytes. *Promise:* only what
//! could be read limits; an unreadable file does not. *Does not know* what others will take meanwhile.

use std::fmt;
use std::fs::read_to_string;

/// What the host has left, and what the control group allows in all; bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    available: Option<u64>,
    group: Option<u64>,
}

impl Room {
    pub(super) fn now() -> Room {
        let read = |path: &str| read_to_string(path).ok();
        let available = read("/proc/meminfo").and_then(|text| available(&text));
        let group = read("/proc/self/cgroup").and_then(|text| group_limit(&text, read));
        Room { available, group }
    }

    pub(super) fn holds(self, bytes: u64) -> bool {
        self.available.is_none_or(|limit| bytes <= limit) && self.group.is_none_or(|limit| bytes <= limit)
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = self.available.into_iter().chain(self.group).min();
        write!(f, "this host has {} bytes for it", least.unwrap_or(u64::MAX))
    }
}

/// The `MemAvailable` line of `/proc/meminfo`.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The smallest `memory.max` from the process's control group up to the root. In a container the
/// group's own path is often not visible; the root's files are the container's then.
fn group_limit(cgroup: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let mut path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mut least: Option<u64> = None;
    loop {
        let limit = read(&format!("/sys/fs/cgroup{}/memory.max", path.trim_end_matches('/')));
        let limit = limit.and_then(|text| text.trim().parse().ok());
        least = least.into_iter().chain(limit).min();
        match path.rfind('/') {
            Some(at) if path.len() > 1 => path = &path[..at.max(1)],
            _ => return least,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_available_memory_limits() {
        let meminfo = "MemTotal:       24683520 kB\nMemFree:        100 kB\nMemAvailable:   2048 kB\n";
        let room = Room { available: available(meminfo), group: None };
        assert_eq!(room.available, Some(2 << 20));
        assert!(room.holds(2 << 20));
        assert!(!room.holds((2 << 20) + 1));
        assert!(Room { available: available("nonsense"), group: None }.holds(u64::MAX));
    }

    #[test]
    fn the_tightest_control_group_on_the_way_up_limits() {
        let files = [
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/memory.max", "4096\n"),
            ("/sys/fs/cgroup/memory.max", "8192\n"),
        ];
        let read =
            |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| text.to_string());
        assert_eq!(group_limit("0::/a/b\n", read), Some(4096));
        assert_eq!(group_limit("0::/\n", read), Some(8192));
        assert_eq!(group_limit("0::/hidden\n", read), Some(8192));
        assert_eq!(group_limit("1:memory:/old\n", read), None);
    }
}
