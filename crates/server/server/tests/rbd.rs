//! Goal: the stock `rbd` finds no difference between this server and a stock cluster. Method: runs the
//! same commands on both and compares their output, except for ids, times and addresses.
//! `LOLIGO_STOCK_CONF` names the stock cluster's configuration.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use loligo_server::{Handle, Server};

/// Commands, one per line, run in a pool of their own. `@/` stands for the test's directory, `POOL` for
/// the pool.
const SCRIPT: &str = "
pool init
create img --size 64M
create old --size 8M --image-feature layering
create striped --size 16M --stripe-unit 65536 --stripe-count 4
ls
ls -l
info img
create img --size 1M
snap create img@s1
snap create img@s1
bench --io-type write --io-size 64K --io-total 4M --io-threads 4 img
du img
snap ls img
snap protect img@s1
snap rm img@s1
clone img@s1 clone --dest-pool POOL
children img@s1
info clone
snap unprotect img@s1
flatten clone
snap unprotect img@s1
resize img --size 32M
resize img --size 32M --allow-shrink
feature disable img fast-diff object-map
feature enable img object-map
object-map rebuild img
object-map check img
info img
image-meta set img key value
image-meta get img key
image-meta list img
image-meta remove img key
image-meta get img key
import @/data imported
export imported @/exported
snap create imported@a
import-diff @/nothing imported
bench --io-type write --io-size 64K --io-total 512K --io-pattern rand imported
snap create imported@b
export-diff --from-snap a imported@b @/diff
diff --from-snap b imported
deep cp imported copied --dest-pool POOL
snap ls copied
snap rename imported@b imported@c
snap ls imported
snap rollback imported@a
export imported @/rolled
snap limit set imported --limit 2
snap create imported@d
snap limit clear imported
sparsify imported
lock add copied mine
rename copied renamed --dest-pool POOL
group create g
group image add --group-pool POOL --group g --image-pool POOL --image imported
group image ls g
group image ls g --format json
info imported
group snap create g@s
group snap create g@s
group snap ls g
snap ls imported --all
bench --io-type write --io-size 64K --io-total 512K --io-pattern rand imported
group snap rollback g@s
export imported @/together
group snap rename g@s t
group snap rm g@s
group snap ls g --format json
group snap rm g@t
group image remove --group-pool POOL --group g --image-pool POOL --image imported
snap ls imported --all
group rm g
group ls
namespace create --namespace ns
namespace ls
create --namespace ns inner --size 1M
ls --namespace ns
namespace remove --namespace ns
rm --namespace ns inner
namespace remove --namespace ns
trash mv old
trash ls
migration prepare clone moved --dest-pool POOL
migration execute moved
migration commit moved
info moved
status moved
snap purge imported
rm imported
rm img
snap purge img
rm img
rm none
ls
";

/// Commands on images of the first format.
const OLD_FORMAT: &str = "
create old --size 10M --image-format 1
create old --size 10M --image-format 1
create small --size 1M --image-format 1 --object-size 64K
create striped --size 1M --image-format 1 --stripe-unit 4096 --stripe-count 2
create featured --size 1M --image-format 1 --image-feature layering
create elsewhere --size 1M --image-format 1 --data-pool POOL
ls
ls -l
ls -l --format json
info old
info old --format json
snap create old@s1
snap create old@s1
bench --io-type write --io-size 64K --io-total 2M old
snap create old@s2
snap ls old
info old@s1
ls -l
du old
du old@s1
diff --from-snap s1 old
export-diff --from-snap s1 old@s2 @/diff
status old
snap protect old@s1
snap unprotect old@s1
clone old@s1 clone --dest-pool POOL
trash mv old
feature enable old exclusive-lock
feature disable old exclusive-lock
object-map rebuild old
flatten old
children old
lock add old mine
lock add old mine
snap limit set old --limit 2
snap limit set old --limit 1
snap create old@s3
snap limit clear old
image-meta set old key value
image-meta ls old
image-meta get old key
group create g
group image add --group-pool POOL --group g --image-pool POOL --image old
group rm g
snap rename old@s1 old@s2
snap rename old@s1 old@t1
snap rollback old@t1
snap rm old@none
snap rm old@s2
snap ls old
rm old
resize old --size 5M
resize old --size 5M --allow-shrink
resize old --size 20M
resize small --size 1G
rename old renamed --dest-pool POOL
rename renamed small --dest-pool POOL
info renamed
sparsify renamed
import @/data imported --image-format 1
export imported @/exported
export renamed@t1 @/exported-snapshot
snap create imported@a
bench --io-type write --io-size 64K --io-total 512K imported
snap create imported@b
import-diff @/diff renamed
cp imported copied --dest-pool POOL
info copied
deep cp imported copied-wholly --dest-pool POOL
snap ls copied-wholly
migration prepare imported moved --dest-pool POOL
ls -l
info moved
status imported
migration execute moved
migration commit moved
info moved
snap ls moved
export moved@a @/moved
migration prepare renamed --dest-pool POOL
info renamed
migration execute renamed
migration abort renamed
info renamed
snap ls renamed
mirror image enable renamed
namespace create --namespace ns
create --namespace ns inner --size 1M --image-format 1
namespace remove --namespace ns
snap purge renamed
rm renamed
rm small
rm none
snap purge copied-wholly
rm copied-wholly
rm copied
snap purge moved
rm moved
ls
";

/// Commands about mirroring. Neither side runs a mirroring daemon.
const MIRRORING: &str = "
create img --size 4M
mirror pool info POOL
mirror pool status POOL
mirror pool peer add POOL client.x@y
mirror pool peer remove POOL 1
mirror pool peer set POOL 1 client z
mirror pool promote POOL
mirror pool demote POOL
mirror pool disable POOL
mirror image enable img
mirror image disable img
mirror image status img
mirror image promote img
mirror image demote img
mirror image resync img
mirror image snapshot img
mirror pool enable POOL image
mirror pool enable POOL image
mirror pool info POOL
mirror pool info POOL --all
mirror pool status POOL
mirror pool status POOL --verbose
mirror pool status POOL --format json
mirror image status img
mirror image demote img
mirror image enable img snapshot
info img
mirror image status img
mirror pool status POOL
mirror pool status POOL --verbose
mirror pool status POOL --format json
mirror pool peer add POOL client.x@y
mirror pool peer add POOL client.x@z
mirror pool info POOL
mirror pool info POOL --all --format json
mirror pool disable POOL
mirror image snapshot img
snap ls --all img
mirror image demote img
info img
mirror image promote img
mirror image promote img --force
mirror pool demote POOL
mirror pool promote POOL
mirror image disable img
mirror image disable img --force
mirror pool peer set POOL PEER client client.q
mirror pool peer set POOL PEER site-name zz
mirror pool peer set POOL PEER direction rx-only
mirror pool peer set POOL PEER direction rx-tx
mirror pool peer set POOL PEER mon-host 1.2.3.4
mirror pool info POOL --all
mirror pool peer remove POOL PEER
mirror pool disable POOL
mirror pool enable POOL pool
mirror pool status POOL
mirror image enable img
mirror pool disable POOL
mirror pool info POOL
snap ls --all img
rm img
";

struct Ran {
    code: Option<i32>,
    shown: String,
}

fn run(conf: &Path, pool: &str, dir: &Path, line: &str) -> Ran {
    let dir = dir.to_str().expect("a path in UTF-8");
    let args = line.split_whitespace().map(|word| match word {
        "POOL" => pool.to_owned(),
        "PEER" => peer(conf, pool),
        word => word.strip_prefix("@/").map_or(word.to_owned(), |file| format!("{dir}/{file}")),
    });
    // `pool init` takes the pool as a positional argument.
    let mut command = Command::new("timeout");
    // Without the library's log, whose lines would be mixed into the output.
    command.args(["120", "rbd", "--log-to-stderr=false", "--err-to-stderr=false"]);
    command.env("CEPH_CONF", conf).env("RBD_FORCE_ALLOW_V1", "1").args(args);
    match line {
        "pool init" => command.arg(pool),
        line if line.starts_with("mirror pool") => &mut command,
        _ => command.args(["--pool", pool]),
    };
    let out = command.output().expect("rbd is installed");
    let shown = [out.stdout, out.stderr].concat();
    Ran { code: out.status.code(), shown: String::from_utf8_lossy(&shown).into_owned() }
}

/// Removes the parts of the output that differ between clusters or runs.
fn plain(shown: &str, pool: &str, dir: &Path) -> Vec<String> {
    let lines = shown.replace('\r', "\n").replace(pool, "POOL").replace(&dir.display().to_string(), "DIR");
    let telling = |line: &&str| {
        !["timestamp", "elapsed", "SEC ", "bench ", " librbd", "% complete", "Snapshot ID"]
            .iter()
            .any(|part| line.contains(part))
    };
    let word = |word: &str| {
        let bare = word.trim_start_matches("rbd_data.").trim_start_matches("rb.");
        let bare =
            bare.trim_start_matches(".mirror.primary.").trim_matches(|c: char| c.is_ascii_punctuation());
        let is_of_id = |c: char| c.is_ascii_hexdigit() || matches!(c, '_' | '.' | '-');
        let id = bare.len() >= 10 && bare.chars().all(is_of_id);
        let time = bare.contains(':') || bare.ends_with("+0000");
        if id || time || bare.starts_with("group.") { "X".to_owned() } else { word.to_owned() }
    };
    // Snapshot ids depend on earlier snapshots, days on the date.
    let without_ids = |line: &str| {
        // Strings in JSON are words, too.
        let line = line.replace('"', " \" ");
        let words: Vec<String> = line.split_whitespace().map(word).collect();
        let is_snap = words.len() > 3 && words[0].parse::<u64>().is_ok();
        let words = if is_snap { &words[1..3] } else { &words[..] };
        words.join(" ")
    };
    lines.lines().filter(telling).map(without_ids).collect()
}

/// The first site to which the pool is mirrored.
fn peer(conf: &Path, pool: &str) -> String {
    let mut command = Command::new("rbd");
    command.env("CEPH_CONF", conf).args(["mirror", "pool", "info", "--format", "json", pool]);
    let out = command.output().expect("rbd is installed");
    let info: serde_json::Value = serde_json::from_slice(&out.stdout).expect("information in JSON");
    info["peers"][0]["uuid"].as_str().expect("a peer").to_owned()
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn rbd_works_as_on_a_stock_cluster() {
    let done = ["snap ls copied", "group image add", "group snap rollback g@s", "info moved"];
    let files = ["exported", "rolled", "together"];
    same("second", &Server::memory().start().expect("the server starts"), SCRIPT, &done, &files);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn images_of_the_first_format_are_as_on_a_stock_cluster() {
    let done = ["snap rollback old", "snap ls copied-wholly", "info moved", "migration abort renamed"];
    let dir = env::temp_dir().join(format!("loligo-rbd-disk-{}", std::process::id()));
    let server = Server::disk(&dir).start().expect("the server starts");
    same("first", &server, OLD_FORMAT, &done, &["exported", "moved"]);
    drop(server);
    let _ = fs::remove_dir_all(&dir);
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn mirroring_is_as_on_a_stock_cluster_without_its_daemon() {
    let done = [
        "mirror image enable img snapshot",
        "mirror pool peer set POOL PEER",
        "mirror pool peer remove POOL PEER",
    ];
    same("mirror", &Server::memory().start().expect("the server starts"), MIRRORING, &done, &[]);
}

/// Runs a script on both sides. Lines that begin with one of `must_be_done` must succeed; `files` must
/// begin with the imported data.
fn same(name: &str, server: &Handle, script: &str, must_be_done: &[&str], files: &[&str]) {
    let stock = env::var("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf");
    let stock = Path::new(&stock);
    let pool = format!("rbd{name}{}", std::process::id());
    let dir = env::temp_dir().join(format!("loligo-rbd-{name}-{}", std::process::id()));
    let sides = [(server.conf().to_owned(), dir.join("ours")), (stock.to_owned(), dir.join("stock"))];
    let data: Vec<u8> = (0..9_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (conf, dir) in &sides {
        fs::create_dir_all(dir).expect("a directory");
        fs::write(dir.join("data"), &data).expect("written");
        let made =
            Command::new("ceph").env("CEPH_CONF", conf).args(["osd", "pool", "create", &pool, "8"]).output();
        assert!(made.expect("ceph is installed").status.success(), "the pool");
    }
    let mut differences = Vec::new();
    for line in script.lines().filter(|line| !line.is_empty()) {
        let [ours, theirs] = sides.each_ref().map(|(conf, dir)| run(conf, &pool, dir, line));
        // Ensures that the script is effective: two sides that both reject a command would be equal.
        assert!(!theirs.shown.contains("unrecognised"), "rbd {line}: {}", theirs.shown);
        if must_be_done.iter().any(|part| line.starts_with(part)) && !line.ends_with("--force") {
            assert_eq!(theirs.code, Some(0), "rbd {line} on the stock cluster: {}", theirs.shown);
        }
        let shown = |ran: &Ran, side: usize| plain(&ran.shown, &pool, &sides[side].1);
        let same = ours.code == theirs.code && shown(&ours, 0) == shown(&theirs, 1);
        if !same {
            differences.push(format!(
                "rbd {line}\n  ours ({:?}): {}\n  stock ({:?}): {}",
                ours.code, ours.shown, theirs.code, theirs.shown
            ));
        }
    }
    for file in files {
        for (_, dir) in &sides {
            let same = fs::read(dir.join(file)).is_ok_and(|bytes| bytes.starts_with(&data));
            assert!(same, "{} differs from what was imported", dir.join(file).display());
        }
    }
    let _ = fs::remove_dir_all(&dir);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
