//! The commands that every daemon has.

use loligo_admin::{Admin, Command, Failure};
use loligo_mon::object;
use loligo_mon::output::json::Node;
use loligo_wire::Errno;

use super::render::{Shape, add, shaped};

/// The commit of Ceph 16.2.15, whose replies these commands imitate.
const GIT_VERSION: &str = "618f440892089921c3e944a991122ddc44e60516";

pub(super) fn register(admin: &Admin) {
    let version = || object! { "version": "16.2.15", "release": "pacific", "release_type": "stable" };
    add(admin, "version", "The release whose daemons answer like this one.", Shape::of("version"), version);
    let commit = || object! { "git_version": GIT_VERSION };
    add(admin, "git_version", "The commit of that release.", Shape::of("version"), commit);
    let no_heap = Failure {
        errno: Errno::EOPNOTSUPP,
        why: "could not issue heap profiler command -- not using tcmalloc!".to_owned(),
    };
    let heap =
        Command::new("heap", "Memory, as tcmalloc sees it; it is not in use.", move |_| Err(no_heap.clone()));
    let heap_commands = [
        "dump",
        "start_profiler",
        "stop_profiler",
        "release",
        "get_release_rate",
        "set_release_rate",
        "stats",
    ];
    admin.command(heap.required("heapcmd", &heap_commands).optional("value", &[]));
    let counters = |prefix: &str| {
        let reset = |request: &loligo_admin::Request| match request.arg("var").unwrap_or_default() {
            name @ ("all" | "osd" | "mon" | "cluster") => {
                Ok(object! { "success": format!("perf reset {name}") })
            }
            name => Ok(object! { "error": format!("Not find: {name}") }),
        };
        shaped(prefix, "Forget a counter's past; ours count from the start.", Shape::of("perf_reset"), reset)
    };
    admin.command(counters("perf reset").required("var", &[]));
    let nothing = || Node::Object(Vec::new());
    add(
        admin,
        "perf histogram dump",
        "Histograms of counters: none are kept.",
        Shape::of("perfcounter_collection"),
        nothing,
    );
    add(
        admin,
        "perf histogram schema",
        "What histograms there are.",
        Shape::of("perfcounter_collection"),
        nothing,
    );
    register_log(admin);
}

/// Adds the log commands. A stock daemon prints nothing for them, with or without a log; neither does
/// this one.
fn register_log(admin: &Admin) {
    type Command = (&'static str, &'static str, fn() -> bool, &'static str);
    let commands: [Command; 3] = [
        ("log dump", "Write the newest entries that are kept to the log.", loligo_logring::dump, "log_dump"),
        ("log flush", "Write what was logged to the log file.", loligo_logring::flush, "log_flush"),
        ("log reopen", "Open the log file anew.", loligo_logring::reopen, "log_reopen"),
    ];
    for (prefix, help, act, root) in commands {
        add(admin, prefix, help, Shape::of(root), move || {
            // A process without a log has nothing to write.
            let _ = act();
            Node::Object(Vec::new())
        });
    }
}
