//! Goal: `loligo rbd` and the stock `rbd` show each other's images, with the same output. Method: the
//! tests run on a server of our own, and on the stock cluster that LOLIGO_STOCK_CONF names.

mod bytes;
mod clones;
mod copy;
mod defaults;
mod diff;
mod feature;
mod forms;
mod group;
mod holders;
mod migration;
mod names;
mod old;
mod sparsify;
mod trash;
mod whole;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};

use loligo_server::Server;
use serde_json::Value;

struct Place {
    conf: PathBuf,
    dir: PathBuf,
    pool: String,
}

impl Place {
    fn new(conf: &Path, what: &str) -> Self {
        static PLACES: AtomicU32 = AtomicU32::new(0);
        // The same test may run on two clusters at the same time.
        let place = PLACES.fetch_add(1, Ordering::Relaxed);
        let dir = env::temp_dir().join(format!("loligo-rbd-{what}-{place}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("room");
        Self { conf: conf.to_owned(), dir, pool: format!("rbd-{what}-{}", std::process::id()) }
    }

    fn run(&self, program: &str, args: &[&str]) -> Output {
        self.command(program, args).output().expect("it is installed")
    }

    /// Starts a program that does not end by itself.
    fn begin(&self, program: &str, args: &[&str]) -> Child {
        let mut command = self.command(program, args);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it is installed")
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.env("CEPH_CONF", &self.conf).env_remove("CEPH_ARGS").current_dir(&self.dir);
        // With `-p`, the stock program misinterprets a word that names the pool.
        if !args.iter().any(|arg| arg.starts_with(&format!("{}/", self.pool))) {
            command.args(["-p", &self.pool]);
        }
        command.args(args);
        command
    }

    fn ours(&self, line: &str) -> Output {
        let args: Vec<&str> = line.split_whitespace().collect();
        self.run(env!("CARGO_BIN_EXE_loligo"), &[&["rbd"], &args[..]].concat())
    }

    fn done(&self, line: &str) -> String {
        let output = self.ours(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    fn refused(&self, line: &str) -> String {
        let output = self.ours(line);
        assert!(!output.status.success(), "{line}");
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    }

    fn stock(&self, line: &str) -> String {
        let args: Vec<&str> = line.split_whitespace().collect();
        let quiet = ["--log-to-stderr=false", "--err-to-stderr=false"];
        let output = self.run("rbd", &[&args[..], &quiet].concat());
        assert!(output.status.success(), "rbd {line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Both programs must print the same, as text and as JSON.
    fn same(&self, line: &str) {
        let plain = |text: String| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        assert_eq!(plain(self.done(line)), plain(self.stock(line)), "{line}");
        let line = format!("{line} --format json");
        let json = |text: String| serde_json::from_str::<Value>(&text).expect("JSON");
        assert_eq!(json(self.done(&line)), json(self.stock(&line)), "{line}");
    }

    /// The stock program must refuse the command.
    fn stock_refuses(&self, line: &str) {
        let args: Vec<&str> = line.split_whitespace().collect();
        assert!(!self.run("rbd", &args).status.success(), "rbd {line}");
    }

    /// Both programs must refuse the command.
    fn both_refuse(&self, line: &str) {
        self.refused(line);
        self.stock_refuses(line);
    }

    fn make_pool(&self) {
        self.ceph(&["osd", "pool", "create", &self.pool, "8"]);
    }

    fn remove_pool(&self) {
        self.ceph(&["osd", "pool", "rm", &self.pool, &self.pool, "--yes-i-really-really-mean-it"]);
    }

    fn ceph(&self, args: &[&str]) {
        let mut command = Command::new("ceph");
        let done = command.env("CEPH_CONF", &self.conf).args(args).output().expect("it is installed");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

#[test]
fn images_by_their_words() {
    let server = Server::memory().pool("p").start().expect("the server starts");
    let place = Place { pool: "p".to_owned(), ..Place::new(server.conf(), "words") };
    place.done("create one --size 10 --object-size 64K");
    place.done("create p/two --size 1G --image-feature layering");
    assert_eq!(place.done("ls"), "one\ntwo\n");
    let info = place.done("info one");
    assert!(info.contains("\n\tsize 10 MiB in 160 objects\n\torder 16 (64 KiB objects)\n"), "{info}");
    let data: Vec<u8> = (0..3_000_001u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(place.dir.join("file"), &data).expect("written");
    place.done("import file");
    place.done("snap create file@s");
    place.done("resize file --size 1M --allow-shrink");
    place.done("export file@s back");
    assert!(fs::read(place.dir.join("back")).expect("a file") == data);
    place.done("snap rollback file@s");
    assert!(place.ours("export file -").stdout == data);
    place.done("object-map check file");
    let piped = Command::new(env!("CARGO_BIN_EXE_loligo"))
        .env("CEPH_CONF", &place.conf)
        .args(["-p", "p", "rbd", "import", "-", "piped", "--object-size", "64K"])
        .stdin(fs::File::open(place.dir.join("file")).expect("a file"))
        .status();
    assert!(piped.expect("it runs").success());
    let fifo = place.dir.join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("it runs").success());
    let mut writer = Command::new("cp").arg(place.dir.join("file")).arg(&fifo).spawn().expect("it runs");
    place.done("import fifo");
    assert!(writer.wait().expect("it ends").success());
    assert!(place.ours("export fifo -").stdout == data);
    place.done("rm fifo");
    assert!(place.ours("export piped -").stdout == data);
    place.done("object-map check piped");
    place.done("rm piped");
    place.done("import -");
    assert!(place.done("info -").contains("size 0 B"));
    place.done("rm -");
    place.done("image-meta set file key value");
    assert_eq!(place.done("image-meta get file key"), "value\n");
    let bench = place.done("bench two --io-type write --io-total 1M --format json");
    let bench: Value = serde_json::from_str(&bench).expect("JSON");
    assert_eq!(bench["ops"], 256);
    assert!(place.refused("resize one --size 5").contains("would shrink"));
    assert!(place.refused("rm file").contains("snapshots"));
    assert!(place.refused("create three --size 1 --image-feature journaling").contains("journaling"));
    assert!(place.refused("info none").contains("no image 'none'"));
    place.done("namespace create p/inside");
    place.done("create p/inside/one --size 1");
    assert_eq!(place.done("ls p/inside"), "one\n");
    assert!(place.refused("namespace rm p/inside").contains("has images"));
    place.done("rm p/inside/one");
    place.done("namespace rm p/inside");
    let said = place.refused("create p/inside/two --size 1");
    assert!(said.contains("p/inside"), "{said}");
    defaults::by_their_words(&place);
    clones::by_their_words(&place);
    trash::by_its_words(&place);
    feature::by_its_words(&place);
    group::by_its_words(&place);
    holders::by_their_words(&place);
    diff::by_its_words(&place);
    copy::by_their_words(&place);
    whole::by_its_words(&place);
    sparsify::by_its_words(&place);
    names::by_their_words(&place);
    migration::by_its_words(&place);
    place.done("snap purge file");
    place.done("rename file renamed");
    for image in ["renamed", "one", "two"] {
        place.done(&format!("rm {image}"));
    }
    assert_eq!(place.done("ls"), "");
    bytes::by_their_words(&place);
    forms::by_their_words(&place);
    let _ = fs::remove_dir_all(&place.dir);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn the_stock_program_sees_what_we_see() {
    let server = Server::memory().start().expect("the server starts");
    beside(&Place::new(server.conf(), "beside"));
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn the_stock_program_sees_what_we_see_on_stock() {
    let conf = env::var_os("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf");
    beside(&Place::new(Path::new(&conf), "beside"));
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn images_are_as_configured() {
    on_our_server("defaults", defaults::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn images_are_as_configured_on_stock() {
    on_stock("defaults", defaults::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn names_are_any_bytes() {
    on_our_server("bytes", bytes::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn names_are_any_bytes_on_stock() {
    on_stock("bytes", bytes::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn names_are_options_too() {
    on_our_server("forms", forms::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn names_are_options_too_on_stock() {
    on_stock("forms", forms::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn what_a_command_does_not_take_is_refused() {
    on_our_server("names", names::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn what_a_command_does_not_take_is_refused_on_stock() {
    on_stock("names", names::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn features_are_switched_by_either() {
    on_our_server("feature", feature::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn features_are_switched_by_either_on_stock() {
    on_stock("feature", feature::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn locks_by_hand_are_seen_by_either() {
    on_our_server("holders", holders::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn locks_by_hand_are_seen_by_either_on_stock() {
    on_stock("holders", holders::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn differences_are_the_same() {
    on_our_server("diff", diff::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn differences_are_the_same_on_stock() {
    on_stock("diff", diff::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn copies_are_alike() {
    on_our_server("copy", copy::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn copies_are_alike_on_stock() {
    on_stock("copy", copy::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn groups_are_the_same_to_either() {
    on_our_server("group", group::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn groups_are_the_same_to_either_on_stock() {
    on_stock("group", group::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn broken_images_hide_no_others() {
    on_our_server("broken", trash::beside_broken_images);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn broken_images_hide_no_others_on_stock() {
    on_stock("broken", trash::beside_broken_images);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn images_are_moved_by_either() {
    on_our_server("migration", migration::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn images_are_moved_by_either_on_stock() {
    on_stock("migration", migration::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn a_migration_goes_on_after_a_kill() {
    on_our_server("killed", migration::killed);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn a_migration_goes_on_after_a_kill_on_stock() {
    on_stock("killed", migration::killed);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn old_images_are_the_same_to_either() {
    on_our_server("old", old::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn old_images_are_the_same_to_either_on_stock() {
    on_stock("old", old::beside);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn old_images_are_moved_by_either() {
    on_our_server("old-moved", old::migrated);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn old_images_are_moved_by_either_on_stock() {
    on_stock("old-moved", old::migrated);
}

/// Runs a test in a pool of its own on a server of our own.
fn on_our_server(what: &str, test: fn(&Place)) {
    let server = Server::memory().start().expect("the server starts");
    in_a_pool(&Place::new(server.conf(), what), test);
}

/// Runs a test on the stock cluster.
fn on_stock(what: &str, test: fn(&Place)) {
    let conf = env::var_os("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf");
    in_a_pool(&Place::new(Path::new(&conf), what), test);
}

fn in_a_pool(place: &Place, test: fn(&Place)) {
    place.make_pool();
    test(place);
    place.remove_pool();
    let _ = fs::remove_dir_all(&place.dir);
}

fn beside(place: &Place) {
    place.make_pool();
    clones::beside(place);
    trash::beside(place);
    let data: Vec<u8> = (0..30_000_001u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(place.dir.join("data"), &data).expect("written");
    place.done("import data ours --stripe-unit 64K --stripe-count 3");
    place.stock("import data theirs --stripe-unit 64K --stripe-count 3 --no-progress");
    place.stock("create plain --size 50M --object-size 1M");
    place.done("create small --size 9000001B --object-size 128K --image-feature layering,exclusive-lock");
    place.same("ls");
    for image in ["ours", "theirs", "plain", "small"] {
        place.same(&format!("info {image}"));
    }
    for image in ["ours", "theirs"] {
        place.done(&format!("snap create {image}@a"));
        place.done(&format!("bench {image} --io-type write --io-size 64K --io-total 1M --io-pattern rand"));
        place.stock(&format!("snap create {image}@b --no-progress"));
        place.stock(&format!("bench {image} --io-type write --io-size 4K --io-total 40K --io-pattern rand"));
        place.done(&format!("snap create {image}@c"));
        place.done(&format!("snap protect {image}@a"));
        place.done(&format!("bench {image} --io-type readwrite --io-size 9K --io-total 1M"));
        for line in ["snap ls", "du", "info"] {
            place.same(&format!("{line} {image}"));
        }
        place.same(&format!("info {image}@a"));
        for snap in ["", "@a", "@b", "@c"] {
            place.stock(&format!("object-map check {image}{snap} --no-progress"));
            exported_alike(place, &format!("{image}{snap}"));
        }
        place.done(&format!("snap rm {image}@b"));
        place.same(&format!("du {image}"));
        place.done(&format!("resize {image} --size 20M --allow-shrink"));
        place.same(&format!("du {image}"));
        place.done(&format!("resize {image} --size 70M"));
        place.stock(&format!("object-map check {image} --no-progress"));
        place.same(&format!("info {image}"));
        place.done(&format!("snap rollback {image}@a"));
        place.stock(&format!("object-map check {image} --no-progress"));
        exported_alike(place, image);
        assert!(place.ours(&format!("export {image} -")).stdout == data, "{image}");
        place.done(&format!("object-map rebuild {image}"));
        place.stock(&format!("object-map check {image} --no-progress"));
        place.same(&format!("du {image}"));
        place.done(&format!("snap unprotect {image}@a"));
    }
    place.done("image-meta set ours key value");
    assert_eq!(place.stock("image-meta get ours key"), "value\n");
    place.stock("snap purge ours --no-progress");
    place.done("snap purge theirs");
    place.done("rename theirs gone");
    place.stock("rm gone --no-progress");
    for image in ["ours", "plain", "small"] {
        place.done(&format!("rm {image}"));
    }
    assert_eq!(place.stock("ls"), "");
    namespaces(place);
    place.remove_pool();
    let _ = fs::remove_dir_all(&place.dir);
}

fn namespaces(place: &Place) {
    let [ours, theirs] = ["ours", "theirs"].map(|name| format!("{}/{name}", place.pool));
    place.done(&format!("namespace create {ours}"));
    place.stock(&format!("namespace create {theirs}"));
    place.same("namespace ls");
    place.stock(&format!("create {ours}/image --size 1"));
    place.done(&format!("create {theirs}/image --size 1"));
    for namespace in [&ours, &theirs] {
        place.same(&format!("ls {namespace}"));
        place.done(&format!("rm {namespace}/image"));
    }
    place.stock(&format!("namespace rm {ours}"));
    place.done(&format!("namespace rm {theirs}"));
    place.same("namespace ls");
}

fn exported_alike(place: &Place, image: &str) {
    for file in ["by-us", "by-them"] {
        let _ = fs::remove_file(place.dir.join(file));
    }
    place.done(&format!("export {image} by-us"));
    place.stock(&format!("export {image} by-them --no-progress"));
    let [ours, theirs] = ["by-us", "by-them"].map(|file| fs::read(place.dir.join(file)).expect("a file"));
    assert!(ours == theirs, "{image}");
}
