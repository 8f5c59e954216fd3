//! The C headers of the libraries: `crates/apps/capi/include`.
//!
//! Types and constants are written by hand (`include/types`). The declarations of functions are made from the
//! functions themselves, so that they cannot differ: `cargo xtask dist --write-headers`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::process::workspace;

/// A header, and the folder of the functions that it declares.
struct Header {
    /// In `include`.
    path: &'static str,
    /// In `src`; the modules in alphabetical order.
    folder: &'static str,
    /// Declared besides: functions that are not defined as the others are, or elsewhere.
    more: &'static [&'static str],
}

const HEADERS: [Header; 3] = [
    Header {
        path: "rados/librados.h",
        folder: "rados",
        more: &["int rados_ioctx_pool_stat(rados_ioctx_t ioctx, struct rados_pool_stat_t *stat);"],
    },
    Header {
        path: "rbd/librbd.h",
        folder: "rbd",
        more: &[
            "int rbd_mirror_mode_get(rados_ioctx_t ioctx, rbd_mirror_mode_t *mode);",
            "int rbd_mirror_image_get_info(rbd_image_t image, rbd_mirror_image_info_t *info, size_t room);",
            "void rbd_mirror_image_get_info_cleanup(rbd_mirror_image_info_t *info);",
        ],
    },
    Header { path: "radosstriper/libradosstriper.h", folder: "striper", more: &[] },
];

/// Types of Rust in a module (all, if it is empty), and what they are in C.
const TYPES: [(&str, &str, &str); 38] = [
    ("", "()", "void"),
    ("", "bool", "bool"),
    ("", "c_char", "char"),
    ("", "c_int", "int"),
    ("", "c_uchar", "unsigned char"),
    ("", "c_uint", "unsigned int"),
    ("", "c_void", "void"),
    ("", "f32", "float"),
    ("", "i8", "int8_t"),
    ("", "i64", "int64_t"),
    ("", "isize", "ssize_t"),
    ("", "libc::iovec", "struct iovec"),
    ("", "libc::time_t", "time_t"),
    ("", "libc::timespec", "struct timespec"),
    ("", "libc::timeval", "struct timeval"),
    ("", "u8", "uint8_t"),
    ("", "u32", "uint32_t"),
    ("", "u64", "uint64_t"),
    ("", "usize", "size_t"),
    ("rados/info", "ClusterStat", "struct rados_cluster_stat_t"),
    ("rados/list", "Item", "rados_object_list_item"),
    ("rados/log", "Callback", "rados_log_callback_t"),
    ("rados/log", "Callback2", "rados_log_callback2_t"),
    ("rados/watch", "Ack", "struct notify_ack_t"),
    ("rados/watch", "Timeout", "struct notify_timeout_t"),
    ("rados/watch", "OldCallback", "rados_watchcb_t"),
    ("rados/watch", "NotifyCallback", "rados_watchcb2_t"),
    ("rados/watch", "ErrorCallback", "rados_watcherrcb_t"),
    ("rados/", "Callback", "rados_callback_t"),
    ("striper/", "Callback", "rados_callback_t"),
    ("rbd/aio", "Callback", "rbd_callback_t"),
    ("rbd/diff", "Callback", "int (*)(uint64_t offset, size_t len, int exists, void *arg)"),
    ("rbd/diff", "ReadCallback", "int (*)(uint64_t offset, size_t len, const char *data, void *arg)"),
    ("rbd/updates", "Callback", "rbd_update_callback_t"),
    ("rbd/", "Callback", "librbd_progress_fn_t"),
    ("rbd/config", "ConfigOption", "rbd_config_option_t"),
    ("rbd/image", "Info", "rbd_image_info_t"),
    ("rbd/trash", "Info", "rbd_trash_image_info_t"),
];

/// The same, for structures of images.
const STRUCTURES: [(&str, &str, &str); 11] = [
    ("rbd/group", "GroupInfo", "rbd_group_info_t"),
    ("rbd/group", "MemberInfo", "rbd_group_image_info_t"),
    ("rbd/group", "SnapInfo", "rbd_group_snap_info_t"),
    ("rbd/group", "SnapNamespace", "rbd_snap_group_namespace_t"),
    ("rbd/list", "ImageSpec", "rbd_image_spec_t"),
    ("rbd/list", "Watcher", "rbd_image_watcher_t"),
    ("rbd/migration", "Status", "rbd_image_migration_status_t"),
    ("rbd/parent", "ChildInfo", "rbd_child_info_t"),
    ("rbd/parent", "Linked", "rbd_linked_image_spec_t"),
    ("rbd/parent", "SnapSpec", "rbd_snap_spec_t"),
    ("rbd/snap", "SnapInfo", "rbd_snap_info_t"),
];

/// The types of handles, by the names of arguments and the start of the function's name.
const HANDLES: [(&str, &str, &str); 8] = [
    ("cluster", "", "rados_t"),
    ("ioctx", "", "rados_ioctx_t"),
    ("image", "rbd_", "rbd_image_t"),
    ("bag", "rbd_", "rbd_image_options_t"),
    ("stats", "rbd_", "rbd_pool_stats_t"),
    ("completion", "rbd_", "rbd_completion_t"),
    ("completion", "rados_", "rados_completion_t"),
    ("striper", "rados_striper_", "rados_striper_t"),
];

/// Names of arguments that are words of C++.
const WORDS: [&str; 6] = ["class", "namespace", "new", "operator", "private", "this"];

/// Writes the headers.
pub(crate) fn write() -> Result<()> {
    for header in &HEADERS {
        let path = folder().join("include").join(header.path);
        fs::create_dir_all(path.parent().ok_or("a header lies in a folder")?)?;
        fs::write(path, header.text()?)?;
    }
    Ok(())
}

/// Copies the headers into a folder.
pub(crate) fn copy_to(to: &Path) -> Result<()> {
    for header in &HEADERS {
        let path = to.join(header.path);
        fs::create_dir_all(path.parent().ok_or("a header lies in a folder")?)?;
        fs::copy(folder().join("include").join(header.path), path)?;
    }
    Ok(())
}

fn folder() -> PathBuf {
    workspace().join("crates/apps/capi")
}

impl Header {
    fn text(&self) -> Result<String> {
        let name = Path::new(self.path).file_name().ok_or("a header has a name")?;
        let mut text = fs::read_to_string(folder().join("include/types").join(name))?;
        let mut modules: Vec<PathBuf> = fs::read_dir(folder().join("src").join(self.folder))?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<_>>()?;
        modules.sort();
        for path in modules {
            let source = fs::read_to_string(&path)?;
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let functions = functions(&source, &format!("{}/{stem}", self.folder))?;
            if functions.is_empty() {
                continue;
            }
            let topic = source.lines().next().unwrap_or_default().trim_start_matches("//! ").to_owned();
            write!(text, "\n/* {topic} */\n{functions}")?;
        }
        if !self.more.is_empty() {
            write!(text, "\n/* More. */\n{}\n", self.more.join("\n"))?;
        }
        text.push_str("\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
        Ok(text)
    }
}

/// The declarations of the functions that a module defines within `calls!` and `plain!`.
fn functions(source: &str, module: &str) -> Result<String> {
    let mut text = String::new();
    let (mut is_within, mut doc) = (false, String::new());
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        match line {
            "calls! {" | "plain! {" => is_within = true,
            "}" => is_within = false,
            _ if !is_within => {}
            _ if line.starts_with("    /// ") => {
                let words = line.trim_start().trim_start_matches("/// ");
                doc = if doc.is_empty() { words.to_owned() } else { format!("{doc} {words}") };
            }
            _ if line.starts_with("    fn ") => {
                let mut head = line.trim().to_owned();
                while !head.ends_with('{') && !head.ends_with("{}") {
                    head = format!("{head} {}", lines.next().ok_or("a function has a body")?.trim());
                }
                let head = head.trim_end_matches('}');
                let comment = wrapped(&format!("/* {} */", std::mem::take(&mut doc)), "   ");
                write!(text, "{comment}\n{}\n", declaration(head, module)?)?;
            }
            _ => {}
        }
    }
    Ok(text)
}

/// The declaration of a function `fn name(arg: type, …) -> type {`.
fn declaration(head: &str, module: &str) -> Result<String> {
    let wrong = || format!("{module}: what declares '{head}'?");
    let (name, rest) = head.trim_start_matches("fn ").split_once('(').ok_or_else(wrong)?;
    let (args, returned) = rest.rsplit_once(") -> ").ok_or_else(wrong)?;
    let mut declared = Vec::new();
    for arg in args.split(',').map(str::trim).filter(|arg| !arg.is_empty()) {
        let (arg, kind) = arg.split_once(": ").ok_or_else(wrong)?;
        let arg = arg.trim_start_matches('_');
        declared.push(parameter(name, arg, kind, module).ok_or_else(wrong)?);
    }
    let args = if declared.is_empty() { "void".to_owned() } else { declared.join(", ") };
    let returned = in_c(returned.trim_end_matches(" {"), module).ok_or_else(wrong)?;
    Ok(wrapped(&format!("{};", joined(&returned, &format!("{name}({args})"))), "    "))
}

fn parameter(function: &str, arg: &str, kind: &str, module: &str) -> Option<String> {
    let handle = HANDLES.iter().find(|(name, start, _)| {
        // `image_ioctx`, `to_ioctx`.
        (arg == *name || arg.ends_with(&format!("_{name}"))) && function.starts_with(start)
    });
    let shown = if WORDS.contains(&arg) { format!("{arg}_name") } else { arg.to_owned() };
    let typed = match (kind, handle) {
        ("*mut c_void", Some((_, _, handle))) => (*handle).to_owned(),
        ("*mut *mut c_void", Some((_, _, handle))) => format!("{handle} *"),
        _ => in_c(kind, module)?,
    };
    Some(joined(&typed, &shown))
}

/// A type of C and what has it.
fn joined(kind: &str, name: &str) -> String {
    if let Some((before, after)) = kind.split_once("(*)") {
        return format!("{before}(*{name}){after}");
    }
    let gap = if kind.ends_with('*') { "" } else { " " };
    format!("{kind}{gap}{name}")
}

fn in_c(kind: &str, module: &str) -> Option<String> {
    if let Some(callback) = kind.strip_prefix("Option<") {
        return in_c(callback.trim_end_matches('>'), module);
    }
    if let Some(pointed) = kind.strip_prefix("*mut ") {
        let pointed = in_c(pointed, module)?;
        return Some(joined(&pointed, "*"));
    }
    if let Some(pointed) = kind.strip_prefix("*const ") {
        let pointed_in_c = in_c(pointed, module)?;
        // A pointer to a constant pointer: the constness is behind its star.
        let is_pointer = pointed_in_c.ends_with('*');
        return Some(if is_pointer {
            format!("{pointed_in_c}const *")
        } else {
            format!("const {pointed_in_c} *")
        });
    }
    let all = TYPES.iter().chain(&STRUCTURES);
    let found = all.filter(|(of, name, _)| *name == kind && module.starts_with(of));
    // The one of the module comes before the one of the folder.
    found.max_by_key(|(of, _, _)| of.len()).map(|(_, _, c)| (*c).to_owned())
}

/// Breaks a line that is too long at spaces.
fn wrapped(line: &str, indent: &str) -> String {
    const COLUMNS: usize = 110;
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let last = lines.last_mut().expect("there is one");
        if last.is_empty() {
            *last = word.to_owned();
        } else if last.chars().count() + 1 + word.chars().count() <= COLUMNS {
            *last = format!("{last} {word}");
        } else {
            lines.push(format!("{indent}{word}"));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_those_of_the_functions() {
        for header in &HEADERS {
            let written = fs::read_to_string(folder().join("include").join(header.path)).unwrap_or_default();
            assert!(
                written == header.text().expect("the sources are read"),
                "include/{} is not what `cargo xtask dist --write-headers` writes",
                header.path
            );
        }
    }

    #[test]
    fn types_of_rust_become_types_of_c() {
        let of = |head: &str, module: &str| declaration(head, module).expect("a declaration");
        assert_eq!(
            of("fn rados_exec(ioctx: *mut c_void, class: *const c_char, len: usize) -> c_int {", "rados/io"),
            "int rados_exec(rados_ioctx_t ioctx, const char *class_name, size_t len);"
        );
        assert_eq!(
            of("fn rbd_diff_iterate(callback: Option<Callback>, _flags: u32) -> () {", "rbd/diff"),
            "void rbd_diff_iterate(int (*callback)(uint64_t offset, size_t len, int exists, void *arg), uint32_t flags);"
        );
        assert_eq!(
            of("fn rbd_list2(ioctx: *mut c_void, to: *mut ImageSpec) -> *mut c_void {", "rbd/list"),
            "void *rbd_list2(rados_ioctx_t ioctx, rbd_image_spec_t *to);"
        );
        assert_eq!(in_c("*const *const c_char", "rados/io").as_deref(), Some("const char *const *"));
        assert_eq!(in_c("*mut *const c_char", "rados/io").as_deref(), Some("const char **"));
    }
}
