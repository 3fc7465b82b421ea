//! Who has a port.
//!
//! In: the kernel's tables of sockets and processes. Out: a name for a person. The promise: nothing is asked of
//! the holder; one of another user has no name that we may read, and that is said.

use std::fs;
use std::path::Path;

/// Of a socket that no process has open: a connection that is over but for stray packets.
const NOBODYS: &str = "0";

/// `python3 (process 17)`.
pub(super) fn name(port: u16) -> String {
    let holder = inodes(port).iter().filter(|inode| *inode != NOBODYS).find_map(|inode| owner(inode));
    holder.unwrap_or_else(|| "a process that cannot be seen from here".to_owned())
}

/// Whether nothing but ended connections is seen of the port.
pub(super) fn is_closing(port: u16) -> bool {
    let inodes = inodes(port);
    !inodes.is_empty() && inodes.iter().all(|inode| inode == NOBODYS)
}

/// Of the sockets that have this port.
fn inodes(port: u16) -> Vec<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    let lines = tables.iter().flat_map(|table| table.lines());
    lines.filter_map(|line| inode_at(line, port)).map(str::to_owned).collect()
}

/// `0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 1000 0 12345 …`: the local address is the second field, the inode the
/// tenth.
fn inode_at(line: &str, port: u16) -> Option<&str> {
    let fields: Vec<_> = line.split_ascii_whitespace().collect();
    let (_, local) = fields.get(1)?.rsplit_once(':')?;
    (u16::from_str_radix(local, 16).ok()? == port).then(|| fields.get(9).copied()).flatten()
}

fn owner(inode: &str) -> Option<String> {
    let link = format!("socket:[{inode}]");
    let process = fs::read_dir("/proc")
        .ok()?
        .flatten()
        // `/proc/self` is one of them by another name.
        .filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit))
        .map(|entry| entry.path())
        .find(|process| has_open(process, &link))?;
    let command = fs::read_to_string(process.join("comm")).ok()?;
    Some(format!("{} (process {})", command.trim(), process.file_name()?.to_string_lossy()))
}

fn has_open(process: &Path, link: &str) -> bool {
    let Ok(files) = fs::read_dir(process.join("fd")) else { return false };
    files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == link))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_other_ports_and_headers_are_passed_over() {
        let line = "  1: 0100007F:1F90 0100007F:A3C4 06 00000000:00000000 03:00000000 00000000  0  0 77 3";
        assert_eq!(inode_at(line, 8080), Some("77"));
        assert_eq!(inode_at(line, 8081), None);
        assert_eq!(inode_at("  sl  local_address rem_address   st tx_queue", 8080), None);
    }
}
