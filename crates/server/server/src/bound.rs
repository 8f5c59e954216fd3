//! The default bound of a store in memory.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// The most that a store in memory takes if the caller sets no bound.
const MOST: u64 = 8 << 30;

/// Returns the bound in bytes: 8 GiB, but at most half of the memory that this process may use. A store that
/// is full refuses writes; a process that takes the machine's last memory is killed.
pub(crate) fn memory_bytes() -> u64 {
    static BYTES: OnceLock<u64> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|meminfo| total(&meminfo));
        let groups = fs::read_to_string("/proc/self/cgroup").ok();
        let group = groups.and_then(|groups| of_group(Path::new("/sys/fs/cgroup"), &groups));
        machine.into_iter().chain(group).map(|bytes| bytes / 2).fold(MOST, u64::min)
    })
}

/// The machine's memory, from the text of `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    rest.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The least bound of the process's control group and of those above it, in the hierarchy of version 2.
/// `groups` is the text of `/proc/self/cgroup`.
fn of_group(root: &Path, groups: &str) -> Option<u64> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let group = root.join(path);
    let all = group.ancestors().take_while(|group| group.starts_with(root));
    all.filter_map(|group| fs::read_to_string(group.join("memory.max")).ok()?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_bounds_the_store() {
        assert_eq!(total("MemFree: 7 kB\nMemTotal:        2048 kB\n"), Some(2 << 20));
        assert_eq!(total("MemTotal: many\n"), None);
        assert!(memory_bytes() <= MOST && memory_bytes() > 0);
    }

    #[test]
    fn the_least_bound_of_all_groups_counts() {
        let root = std::env::temp_dir().join(format!("loligo-bound.{}", std::process::id()));
        let group = root.join("a/b");
        fs::create_dir_all(&group).expect("created");
        let groups = "1:cpu:/x\n0::/a/b\n";
        assert_eq!(of_group(&root, groups), None);
        fs::write(group.join("memory.max"), "max\n").expect("written");
        assert_eq!(of_group(&root, groups), None);
        fs::write(root.join("a/memory.max"), "4096\n").expect("written");
        fs::write(root.join("memory.max"), "8192\n").expect("written");
        assert_eq!(of_group(&root, groups), Some(4096));
        assert_eq!(of_group(&root, "1:cpu:/x\n"), None, "version 1");
        fs::remove_dir_all(&root).expect("removed");
    }
}
