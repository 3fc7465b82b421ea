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

/// The smallest limit from the process's control groups up to their roots, of either version. In a
/// container a group's own path is often not visible; the root's files are the container's then.
fn group_limit(cgroup: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let limits = cgroup.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            list if list.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let upward =
            std::iter::successors(Some(path.trim_end_matches('/')), |path| Some(&path[..path.rfind('/')?]));
        // "max" is no number and no limit.
        upward.filter_map(|path| read(&format!("{root}{path}/{file}"))?.trim().parse().ok()).min()
    });
    limits.min()
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
            ("/sys/fs/cgroup/memory/old/memory.limit_in_bytes", "1024\n"),
        ];
        let read =
            |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| text.to_string());
        assert_eq!(group_limit("0::/a/b\n", read), Some(4096));
        assert_eq!(group_limit("0::/\n", read), Some(8192));
        assert_eq!(group_limit("0::/hidden\n", read), Some(8192));
        assert_eq!(group_limit("5:cpu,memory:/old\n3:cpuset:/a\n0::/\n", read), Some(1024));
        assert_eq!(group_limit("0::/a/b", |_| None), None);
    }
}
