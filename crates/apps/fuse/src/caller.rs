//! As whom a request is made.

use std::fs;

use loligo_fs::Caller;

use crate::kernel::Head;

/// Returns the user of a request, without further groups: looking at something needs none where the kernel
/// checks permissions.
pub(crate) fn of(request: &Head) -> Caller {
    Caller::new(request.uid, request.gid)
}

/// Returns the user of a request with all groups, for what makes or changes something: a key that is
/// limited to a user is compared with them by the server.
pub(crate) fn with_groups(request: &Head) -> Caller {
    let caller = of(request);
    if caller.uid == 0 {
        return caller;
    }
    Caller { groups: groups(request.pid).unwrap_or_default(), ..caller }
}

/// Reads a process's groups. The kernel tells no more than the process's number; a process that has ended
/// meanwhile, or that is in a container of its own, has none that could be seen.
fn groups(pid: u32) -> Option<Vec<u32>> {
    if pid == 0 {
        return None;
    }
    parsed(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn parsed(status: &str) -> Option<Vec<u32>> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"))?;
    Some(line.split_whitespace().filter_map(|group| group.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_in_one_line_of_the_status() {
        let status = "Name:\tcat\nUid:\t0\t0\t0\t0\nGroups:\t4 24 1000 \nNStgid:\t7\n";
        assert_eq!(parsed(status), Some(vec![4, 24, 1000]));
        assert_eq!(parsed("Name:\tcat\nGroups:\t\n"), Some(vec![]));
        assert_eq!(parsed("Name:\tcat\n"), None);
    }

    #[test]
    fn this_process_s_own_status_is_readable() {
        assert!(groups(std::process::id()).is_some());
        assert_eq!(groups(0), None);
    }
}
