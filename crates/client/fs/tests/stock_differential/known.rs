//! What may differ, and why. `docs/limits.md` has the same list for users.

use crate::call::Call;

/// Whether the answers of this client and of libcephfs are the same.
pub(crate) fn are_equal(call: &Call, [ours, theirs]: &[String; 2]) -> bool {
    let errnos =
        [ours, theirs].map(|answer| answer.strip_prefix("err ").and_then(|errno| errno.parse().ok()));
    match (call, errnos) {
        // Each client has a directory of its own.
        (Call::Ino { .. }, errnos) => errnos[0].is_some() == errnos[1].is_some(),
        // python3-cephfs has an errno and loses it, since the path is no text.
        (_, [Some(_), Some(0)]) => call.paths().iter().any(|path| std::str::from_utf8(&path.0).is_err()),
        (_, [Some(ours), Some(theirs)]) => ours == theirs || differ_so(call, ours, theirs),
        _ => ours == theirs,
    }
}

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EBADF: i32 = 9;
const EACCES: i32 = 13;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
const EXDEV: i32 = 18;
const EISDIR: i32 = 21;
const EFBIG: i32 = 27;
const EROFS: i32 = 30;
const ENAMETOOLONG: i32 = 36;
const ENOTEMPTY: i32 = 39;
const ELOOP: i32 = 40;

/// Errnos of calls that both refuse.
fn differ_so(call: &Call, ours: i32, theirs: i32) -> bool {
    match (ours, theirs) {
        // A path through a file: libcephfs looks at the file's permissions before it sees that it is none.
        (ENOTDIR, EACCES) => true,
        // This client looks at all names of a path first.
        (ENAMETOOLONG, ENOENT | EACCES | ENOTDIR) => true,
        // A new file at a link that leads nowhere: libcephfs takes the link's target from the mount's root,
        // where it may lead round in circles.
        (ENOENT, ELOOP) if matches!(call, Call::Open { .. }) => true,
        // Of two paths that both lead nowhere libcephfs tells of the other one, or that one is in a snapshot.
        (
            ENOENT | EACCES | ENOTDIR | ENAMETOOLONG | ELOOP,
            ENOENT | EACCES | ENOTDIR | ENAMETOOLONG | ELOOP | EXDEV,
        ) => call.paths().len() == 2,
        // A link to a directory whose new path leads through a file: libcephfs sees the directory first.
        (ENOTDIR, EPERM) => matches!(call, Call::Link { .. }),
        // A file, renamed to a directory with a slash behind its name.
        (ENOTDIR, ENOTEMPTY) => {
            matches!(call, Call::Rename { .. }) && call.paths().iter().any(|path| path.0.ends_with(b"/"))
        }
        // A directory of a snapshot, opened as a new file.
        (EISDIR, EROFS) => matches!(call, Call::Open { .. }),
        // A new file in place of the root: libcephfs sees that it is there, Linux that it is a directory.
        (EISDIR, EEXIST) => match call {
            Call::Open { path, .. } => path.0.iter().all(|byte| matches!(byte, b'/' | b'.')),
            _ => false,
        },
        // Behind the largest size, through what was not opened to write: libcephfs looks at the size first.
        (EBADF, EFBIG) => matches!(call, Call::Write { .. }),
        // A file in place of a directory: libcephfs leaves it to the server, which looks into it first, and
        // answered ENOENT where the file had several names.
        (EISDIR, ENOTEMPTY | ENOENT) => matches!(call, Call::Rename { .. }),
        // libcephfs takes `.` and `..` for names that it could make or remove.
        _ => call.paths().iter().any(|path| {
            path.0.ends_with(b"/.") || path.0.ends_with(b"/..") || path.0 == b".." || path.0 == b"."
        }),
    }
}
