//! Goal: the stock `rbd` finds no difference between this server and a stock cluster. Method: the same commands on both, and what
//! they print compared, but for ids, times and addresses. `LOLIGO_STOCK_CONF` names the stock cluster's configuration.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use loligo_server::Server;

/// Commands, one a line, for a pool of their own; `@/` is in the directory of the test, `POOL` the pool.
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

struct Ran {
    code: Option<i32>,
    shown: String,
}

fn run(conf: &Path, pool: &str, dir: &Path, line: &str) -> Ran {
    let dir = dir.to_str().expect("a path in UTF-8");
    let args = line.split_whitespace().map(|word| match word {
        "POOL" => pool.to_owned(),
        word => word.strip_prefix("@/").map_or(word.to_owned(), |file| format!("{dir}/{file}")),
    });
    // `pool init` takes the pool by position.
    let mut command = Command::new("timeout");
    // Without the library's log, whose lines come in between.
    command.args(["120", "rbd", "--log-to-stderr=false", "--err-to-stderr=false"]);
    command.env("CEPH_CONF", conf).args(args);
    match line {
        "pool init" => command.arg(pool),
        _ => command.args(["--pool", pool]),
    };
    let out = command.output().expect("rbd is installed");
    let shown = [out.stdout, out.stderr].concat();
    Ran { code: out.status.code(), shown: String::from_utf8_lossy(&shown).into_owned() }
}

/// Without what differs from cluster to cluster and from second to second.
fn plain(shown: &str, pool: &str, dir: &Path) -> Vec<String> {
    let lines = shown.replace('\r', "\n").replace(pool, "POOL").replace(&dir.display().to_string(), "DIR");
    let telling = |line: &&str| {
        !["timestamp", "elapsed", "SEC ", "bench ", " librbd", "% complete"]
            .iter()
            .any(|part| line.contains(part))
    };
    let word = |word: &str| {
        let bare = word.trim_start_matches("rbd_data.").trim_matches(|c: char| c.is_ascii_punctuation());
        let id = bare.len() >= 10 && bare.chars().all(|c| c.is_ascii_hexdigit() || c == '_' || c == '.');
        let time = bare.contains(':') || bare.ends_with("+0000");
        if id || time || bare.starts_with("group.") { "X".to_owned() } else { word.to_owned() }
    };
    // Snapshots' ids depend on what was made before, days on the day.
    let without_ids = |line: &str| {
        let words: Vec<String> = line.split_whitespace().map(word).collect();
        let is_snap = words.len() > 3 && words[0].parse::<u64>().is_ok();
        let words = if is_snap { &words[1..3] } else { &words[..] };
        words.join(" ")
    };
    lines.lines().filter(telling).map(without_ids).collect()
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn rbd_works_as_on_a_stock_cluster() {
    let stock = env::var("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf");
    let stock = Path::new(&stock);
    let pool = format!("rbdtest{}", std::process::id());
    let server = Server::memory().start().expect("the server starts");
    let dir = env::temp_dir().join(format!("loligo-rbd-{}", std::process::id()));
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
    for line in SCRIPT.lines().filter(|line| !line.is_empty()) {
        let [ours, theirs] = sides.each_ref().map(|(conf, dir)| run(conf, &pool, dir, line));
        // So that the script does what it is meant to, and not the same nothing twice.
        assert!(!theirs.shown.contains("unrecognised"), "rbd {line}: {}", theirs.shown);
        let must_be_done = ["snap ls copied", "group image add", "group snap rollback g@s", "info moved"];
        if must_be_done.iter().any(|part| line.starts_with(part)) {
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
    for file in ["exported", "rolled", "together"] {
        for (_, dir) in &sides {
            let same = fs::read(dir.join(file)).is_ok_and(|bytes| bytes.starts_with(&data));
            assert!(same, "{} differs from what was imported", dir.join(file).display());
        }
    }
    let _ = fs::remove_dir_all(&dir);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
