//! Goal: names of a directory of which this client knows all are taken from memory, and what a stock client
//! changes there is seen at once all the same. Method: ceph-fuse changes the directory in turn with this
//! client; the server counts the requests.

use super::*;

/// How often the server was asked so far: the names of its counters of looks at names and attributes end so.
fn asked() -> u64 {
    let dump: serde_json::Value =
        serde_json::from_str(&ceph(&["tell", "mds.0", "perf", "dump", "mds_server"])).expect("JSON");
    let counters = &dump["mds_server"];
    let count = |name: &str| counters[name]["avgcount"].as_u64().unwrap_or_else(|| panic!("{name}: {dump}"));
    ["req_lookup_latency", "req_getattr_latency", "req_readdir_latency"].into_iter().map(count).sum()
}

async fn listed(place: &Place, dir: &str) -> Vec<String> {
    let entries = place.fs.read_dir(dir).await.expect("a directory").all().await.expect("listed");
    let mut names: Vec<_> =
        entries.into_iter().map(|entry| String::from_utf8(entry.name).expect("text")).collect();
    names.sort();
    names
}

async fn is_missing(place: &Place, path: &str) -> bool {
    match place.fs.stat(path).await {
        Ok(_) => false,
        Err(e) if e.is_not_found() => true,
        Err(e) => panic!("{path}: {e}"),
    }
}

/// Goal: a listing, looks at files and looks for names that do not exist cost no request once a directory was
/// listed, and a new file in it costs no look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn a_warm_directory_costs_no_request() {
    let place = Place::new("warm").await;
    place.fs.create_dir("d", 0o755).await.expect("made");
    for at in 0..50 {
        place.fs.make_node(format!("d/f{at}"), 0o644, 0).await.expect("made");
    }
    let mut expected: Vec<String> = (0..50).map(|at| format!("f{at}")).collect();
    expected.sort();
    // What lets this client write goes back after some seconds, and ends nothing.
    assert_eq!(listed(&place, "d").await, expected);
    let before = asked();
    for at in 0..50 {
        assert!(!is_missing(&place, &format!("d/f{at}")).await);
        assert!(is_missing(&place, &format!("d/none{at}")).await);
    }
    assert_eq!(listed(&place, "d").await, expected);
    // Each new name is looked for before it is made, and all are known afterwards.
    for at in 0..20 {
        let options = OpenOptions::new().write().create();
        let file = place.fs.open(format!("d/new{at}"), options).await.expect("made");
        file.close().await.expect("closed");
    }
    place.fs.remove_file("d/f0").await.expect("removed");
    place.fs.rename("d/f1", "d/f2").await.expect("renamed over");
    expected.retain(|name| name != "f0" && name != "f1");
    expected.extend((0..20).map(|at| format!("new{at}")));
    expected.sort();
    assert!(is_missing(&place, "d/f0").await && is_missing(&place, "d/f1").await);
    assert_eq!(asked() - before, 0);
    assert_eq!(listed(&place, "d").await, expected);
    let theirs = place.theirs("d");
    assert_eq!(beside(move || fs::read_dir(theirs).expect("a directory").count()).await, expected.len());
    place.end().await;
}

/// Goal: whatever a stock client does to a directory of which this client knows all names, or this client to
/// one of which the other one does, is seen by the next look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn changes_of_either_are_seen_at_once_in_a_directory_that_is_known() {
    let place = Place::new("known").await;
    for dir in ["d", "e"] {
        place.fs.create_dir(dir, 0o777).await.expect("made");
    }
    for name in ["a", "b", "c"] {
        place.write(&format!("d/{name}"), name).await;
    }
    let theirs = |path: &str| place.theirs(path);
    for round in 0..5 {
        let new = format!("d/new{round}");
        // Both know all names, and that this one is not among them.
        listed(&place, "d").await;
        let dir = theirs("d");
        beside(move || fs::read_dir(dir).expect("a directory").count()).await;
        assert!(is_missing(&place, &new).await && !theirs(&new).exists());
        let at = theirs(&new);
        beside(move || fs::write(at, "theirs").expect("written")).await;
        assert_eq!(place.fs.stat(&new).await.expect("there").size, 6, "round {round}");
        let (from, to) = (theirs(&new), theirs("d/a"));
        beside(move || fs::rename(from, to).expect("renamed over")).await;
        assert!(is_missing(&place, &new).await, "round {round}");
        assert_eq!(place.fs.stat("d/a").await.expect("there").size, 6, "round {round}");
        assert_eq!(listed(&place, "d").await, ["a", "b", "c"], "round {round}");
        let (from, to) = (theirs("d/b"), theirs("e/b"));
        beside(move || fs::rename(from, to).expect("moved out")).await;
        assert!(is_missing(&place, "d/b").await && !is_missing(&place, "e/b").await, "round {round}");
        listed(&place, "d").await;
        listed(&place, "e").await;
        place.fs.rename("e/b", "d/b").await.expect("moved in");
        assert!(theirs("d/b").exists() && !theirs("e/b").exists(), "round {round}");
        place.fs.link("d/c", "d/second").await.expect("linked");
        assert!(theirs("d/second").exists(), "round {round}");
        let at = theirs("d/second");
        beside(move || fs::remove_file(at).expect("removed")).await;
        assert!(is_missing(&place, "d/second").await && !is_missing(&place, "d/c").await, "round {round}");
        assert_eq!(listed(&place, "d").await, ["a", "b", "c"], "round {round}");
        let at = theirs("d/sub");
        beside(move || fs::create_dir(at).expect("made")).await;
        assert!(is_missing(&place, "d/sub/x").await, "round {round}");
        let at = theirs("d/sub/x");
        beside(move || fs::write(at, "x").expect("written")).await;
        assert_eq!(listed(&place, "d/sub").await, ["x"], "round {round}");
        place.fs.remove_file("d/sub/x").await.expect("removed");
        place.fs.remove_dir("d/sub").await.expect("removed");
        assert!(!theirs("d/sub").exists(), "round {round}");
    }
    place.end().await;
}
