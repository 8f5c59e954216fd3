//! Watchers of images and manual locks: each program sees the locks of the other, and breaks them.

use std::time::{Duration, Instant};

use crate::Place;

pub(crate) fn by_their_words(place: &Place) {
    place.done("create held --size 10");
    assert_eq!(place.done("status held"), "Watchers: none\n");
    assert_eq!(place.done("status held --format json"), "{\"watchers\":[]}\n");
    assert_eq!(place.done("lock ls held"), "");
    place.done("lock add held mine");
    let listed = place.done("lock ls held");
    assert!(listed.starts_with("There is 1 exclusive lock on this image.\nLocker"), "{listed}");
    assert!(place.refused("lock add held other").contains("has the lock"));
    assert!(place.refused("bench held --io-type write --io-total 4K").contains("locked by"));
    let locker = locker_of(place, "held");
    assert!(place.refused(&format!("lock rm held other {locker}")).contains("no lock"));
    assert!(place.refused("lock rm held mine nobody").contains("is no client"));
    place.done(&format!("lock rm held mine {locker}"));
    assert_eq!(place.done("lock ls held --format json"), "[]\n");
    place.done("lock add held one --shared tag");
    place.done("lock add held two --shared tag");
    assert!(place.refused("lock add held three --shared other").contains("has the lock"));
    assert!(
        place.done("lock ls held").starts_with("There are 2 shared locks on this image.\nLock tag: tag\n")
    );
    for id in ["one", "two"] {
        let json: serde_json::Value =
            serde_json::from_str(&place.done("lock ls held --format json")).expect("JSON");
        let holder =
            json.as_array().expect("a list").iter().find(|one| one["id"] == id).expect("it holds it");
        place.done(&format!("lock rm held {id} {}", holder["locker"].as_str().expect("a name")));
    }
    place.done("rm held");
}

fn locker_of(place: &Place, image: &str) -> String {
    let listed = place.done(&format!("lock ls {image}"));
    let line = listed.lines().last().expect("a holder");
    line.split_whitespace().next().expect("a locker").to_owned()
}

pub(crate) fn beside(place: &Place) {
    place.stock("create held --size 200M");
    let same = || ["lock ls held", "status held", "ls --long"].iter().for_each(|line| place.same(line));
    same();
    place.done("lock add held ours");
    same();
    place.both_refuse("lock add held other");
    place.both_refuse("lock add held other --shared tag");
    place.both_refuse("lock rm held other client.1");
    let locker = locker_of(place, "held");
    place.stock(&format!("lock rm held ours {locker}"));
    same();
    place.stock("lock add held theirs");
    same();
    place.both_refuse("lock add held other");
    let locker = locker_of(place, "held");
    place.done(&format!("lock rm held theirs {locker}"));
    place.stock("lock add held one --shared tag");
    place.done("lock add held two --shared tag");
    same();
    place.both_refuse("lock add held three --shared other");
    for _ in 0..2 {
        let locker = locker_of(place, "held");
        let listed = place.done("lock ls held");
        let id = listed.lines().last().expect("a holder").split_whitespace().nth(1).expect("an id");
        place.stock(&format!("lock rm held {id} {locker}"));
    }
    same();
    watched(place);
    place.done("rm held");
}

/// Each program sees that the other has the image open.
fn watched(place: &Place) {
    let writes = ["bench", "held", "--io-type", "write", "--io-total", "1T"];
    let ours = [&["rbd"], &writes[..]].concat();
    for (program, args) in [("rbd", &writes[..]), (env!("CARGO_BIN_EXE_loligo"), &ours[..])] {
        let mut writer = place.begin(program, args);
        let since = Instant::now();
        while place.done("lock ls held").is_empty() {
            assert!(since.elapsed() < Duration::from_secs(60), "{program} never had the lock");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(place.done("status held").starts_with("Watchers:\n\twatcher="));
        place.same("status held");
        place.same("lock ls held");
        writer.kill().expect("it runs");
        writer.wait().expect("it ended");
        let locker = locker_of(place, "held");
        let listed = place.done("lock ls held --format json");
        let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
        let id = listed[0]["id"].as_str().expect("an id").to_owned();
        // The id contains a space.
        let done = place.run(env!("CARGO_BIN_EXE_loligo"), &["rbd", "lock", "rm", "held", &id, &locker]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(place.done("lock ls held"), "");
    }
    let since = Instant::now();
    while place.done("status held") != "Watchers: none\n" {
        assert!(since.elapsed() < Duration::from_secs(60), "a watch that does not end");
        std::thread::sleep(Duration::from_millis(200));
    }
}
