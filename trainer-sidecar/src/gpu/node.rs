//! NUMA nodes: where a GPU hangs, and threads kept on the processors beside it.
//!
//! Memory needs no word: Linux takes it from the node of the thread that first writes to it.

use std::fs;
use std::io;
use std::path::Path;

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// The node of a device on the PCI bus; `None` where the machine has but one, or does not say. `sys` is where sysfs
/// is mounted, and `bus_id` is as the driver writes it, `00000000:3B:00.0`.
pub(super) fn of_device(sys: &Path, bus_id: &str) -> Option<u32> {
    if online(sys).is_none_or(|nodes| nodes.len() < 2) {
        return None;
    }
    // Linux writes domains with four digits.
    let start = bus_id.find(':')?.checked_sub(4)?;
    let name = bus_id.get(start..)?.to_ascii_lowercase();
    let text = fs::read_to_string(sys.join("bus/pci/devices").join(name).join("numa_node")).ok()?;
    // It is -1 where the firmware says nothing.
    text.trim().parse().ok()
}

/// Keeps all threads of this process, and those that they start, on a node's processors, as far as the process may
/// use them. Gives how many these are.
///
/// # Errors
/// None of them may be used, or the system refuses.
pub(super) fn stay_on(sys: &Path, node: u32) -> io::Result<u32> {
    let list = fs::read_to_string(sys.join(format!("devices/system/node/node{node}/cpulist")))?;
    let allowed = sched_getaffinity(None)?;
    let mut set = CpuSet::new();
    for cpu in numbers(&list).unwrap_or_default() {
        if cpu < CpuSet::MAX_CPU && allowed.is_set(cpu) {
            set.set(cpu);
        }
    }
    if set.count() == 0 {
        return Err(io::Error::other("the process may use none of the node's processors"));
    }
    // Twice, for a thread may start another while the first are told.
    for _ in 0..2 {
        for thread in fs::read_dir("/proc/self/task")? {
            let Some(thread) = thread?.file_name().to_str().and_then(|id| id.parse().ok()) else { continue };
            // One that has ended meanwhile is nowhere.
            let _gone = sched_setaffinity(Pid::from_raw(thread), &set);
        }
    }
    Ok(set.count())
}

fn online(sys: &Path) -> Option<Vec<usize>> {
    numbers(&fs::read_to_string(sys.join("devices/system/node/online")).ok()?)
}

/// `0-3,8`, as sysfs writes sets.
fn numbers(list: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        numbers.extend(first.parse().ok()?..=last.parse::<usize>().ok()?);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sysfs(nodes: &str) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("devices/system/node/online", nodes),
            ("bus/pci/devices/0000:3b:00.0/numa_node", "1\n"),
            ("bus/pci/devices/0000:5e:00.0/numa_node", "-1\n"),
        ] {
            let path = sys.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        sys
    }

    #[test]
    fn a_device_has_a_node_where_there_is_more_than_one() {
        let (two, one) = (sysfs("0-1\n"), sysfs("0\n"));
        assert_eq!(of_device(two.path(), "00000000:3B:00.0"), Some(1));
        assert_eq!(of_device(two.path(), "00000000:5E:00.0"), None, "the firmware says nothing");
        assert_eq!(of_device(two.path(), "00000000:AF:00.0"), None);
        assert_eq!(of_device(one.path(), "00000000:3B:00.0"), None);
        assert_eq!(of_device(Path::new("/nowhere"), "00000000:3B:00.0"), None);
    }

    #[test]
    fn sets_are_read_as_sysfs_writes_them() {
        assert_eq!(numbers("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!(numbers("\n"), Some(vec![]));
        assert_eq!(numbers("all"), None);
    }
}
