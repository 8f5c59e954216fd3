//! Goal: a part of a name that a command does not use, such as the snapshot in `rm IMAGE@SNAPSHOT`, is
//! refused with stock `rbd`'s status, and nothing is changed.

use super::Place;

/// Refused commands with stock's status, which is the errno. `POOL` stands for the pool's name.
const REFUSED: &[(u8, &str)] = &[
    (22, "rm v@nosuch"),
    (22, "rm v@s1"),
    (22, "snap purge v@s1"),
    (22, "snap ls v@s1"),
    (22, "snap limit set v@s1 --limit 4"),
    (22, "snap limit clear v@s1"),
    (22, "snap create v"),
    (22, "snap rm v"),
    (22, "snap protect v"),
    (22, "snap unprotect v"),
    (22, "snap rollback v"),
    (22, "snap rename POOL/v@s1 POOL/w@t"),
    (22, "snap rename POOL/v@s1 nosuch/v@t"),
    (22, "snap rename POOL/v@s1 POOL/v"),
    (22, "snap rename v@s1 t"),
    (22, "resize v@s1 --size 2M --allow-shrink"),
    (22, "create v2@s --size 1M"),
    (22, "rename v@s1 v2"),
    (22, "rename v v2@s"),
    (22, "rename POOL/v POOL/inside/v2"),
    (22, "bench v@s1 --io-type write --io-total 4K"),
    (22, "status v@s1"),
    (22, "lock ls v@s1"),
    (22, "lock add v@s1 id"),
    (22, "lock rm v@s1 id client.1"),
    (22, "flatten v@s1"),
    (22, "sparsify v@s1"),
    (22, "feature disable v@s1 fast-diff"),
    (22, "feature enable v@s1 fast-diff"),
    (22, "image-meta ls v@s1"),
    (22, "image-meta get v@s1 k"),
    (22, "image-meta set v@s1 k v"),
    (22, "image-meta rm v@s1 k"),
    (22, "clone v v2"),
    (22, "clone v@s1 v2@t"),
    (22, "cp v@s1 v2@t"),
    (22, "deep cp v@s1 v2@t"),
    (22, "import-diff /dev/null v@s1"),
    (22, "trash mv v@s1"),
    (22, "trash rm id@s1"),
    (22, "trash restore id@s1"),
    (22, "group create g2@s"),
    (22, "group rm g@s"),
    (22, "group rename g h@s"),
    (22, "group image add g v@s1"),
    (22, "group image rm g v@s1"),
    (22, "group image ls g@s"),
    (22, "group snap create g"),
    (22, "group snap ls g@s"),
    (22, "group snap rm g"),
    (22, "group snap rollback g"),
    (22, "info v@"),
    (22, "info @s"),
    (22, "ls POOL/v@s"),
    (22, "namespace create POOL/inside/x"),
    (21, "import /tmp"),
    (25, "import /dev/null"),
    (17, "namespace create POOL/inside"),
    (17, "group create g"),
    (2, "namespace rm POOL/nosuch"),
    (2, "info v@nosuch"),
    (2, "info nosuch"),
    (2, "info POOL/nosuch/v"),
    (2, "info POOL//v"),
    (2, "rm POOL//v"),
    (22, "bench v --io-type write --io-size 0"),
    (22, "bench v --io-type write --io-size 20M"),
    (2, "du v@nosuch"),
    (2, "du nosuch"),
    (2, "diff v@nosuch"),
    (2, "export v@nosuch -"),
    (2, "export-diff v@nosuch -"),
    (2, "cp v@nosuch v2"),
    (2, "children v@nosuch"),
    (2, "create POOL/nosuch/x --size 1M"),
    (2, "ls POOL/nosuch"),
    (2, "ls POOL/inside/x"),
    (2, "group ls POOL/nosuch"),
    (2, "trash ls POOL/nosuch"),
    (2, "trash purge POOL/nosuch"),
    (2, "pool stats POOL/nosuch"),
];

fn prepare(place: &Place) {
    place.done("create v --size 10M");
    place.done("snap create v@s1");
    place.done("group create g");
    place.done(&format!("namespace create {}/inside", place.pool));
}

/// Checks that the image is unchanged, and that nothing was added.
fn check(place: &Place) {
    assert!(place.done("info v").contains("size 10 MiB"));
    assert!(place.done("snap ls v").contains("s1"));
    assert_eq!(place.done("group ls"), "g\n");
    assert_eq!(place.done(&format!("ls {}/inside", place.pool)), "");
    let images = place.done("ls");
    assert!(images.lines().all(|image| image != "v2"), "{images}");
}

fn clear(place: &Place) {
    place.done("snap purge v");
    place.done("rm v");
    place.done("group rm g");
    place.done(&format!("namespace rm {}/inside", place.pool));
}

fn line(place: &Place, text: &str) -> String {
    text.replace("POOL", &place.pool)
}

pub(super) fn by_their_words(place: &Place) {
    prepare(place);
    for (status, text) in REFUSED {
        let output = place.ours(&line(place, text));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(i32::from(*status)), "{text}: {said}");
        assert!(said.starts_with("loligo: ") && said.lines().count() == 1, "{text}: {said}");
    }
    for malformed in [
        "create v2 -s 10M --size 5M",
        "ls -s s1",
        "pool init -N inside",
        "namespace ls -N inside",
        "create v2 --size 10X",
        "info v extra",
        "info --nosuch v",
    ] {
        assert_eq!(place.ours(malformed).status.code(), Some(1), "{malformed}");
    }
    check(place);
    // Only a bench that writes refuses a snapshot.
    place.done("bench v@s1 --io-type read --io-total 4K");
    clear(place);
}

/// The stock program has the same statuses.
pub(super) fn beside(place: &Place) {
    prepare(place);
    for (status, text) in REFUSED {
        let text = line(place, text);
        let args: Vec<&str> = text.split_whitespace().collect();
        let output = place.run("rbd", &args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(i32::from(*status)), "rbd {text}: {said}");
        assert_eq!(place.ours(&text).status.code(), Some(i32::from(*status)), "{text}");
    }
    check(place);
    clear(place);
}
