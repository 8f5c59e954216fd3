//! New images have the configured shape, from the pool, the command line, `CEPH_ARGS`, ceph.conf and the
//! monitors.

use std::fs;

use crate::Place;

/// Checks the images of `create` and `import` with options, without stock programs.
pub(crate) fn by_their_words(place: &Place) {
    let lines = |image: &str| place.done(&format!("info {image}"));
    place.done(
        "--rbd-default-order 16 create shaped --size 1M --rbd_default_features=layering,exclusive-lock",
    );
    let info = lines("shaped");
    assert!(info.contains("order 16") && info.contains("features: layering, exclusive-lock\n"), "{info}");
    place.done("rm shaped");
    for wrong in [
        "--rbd-default-order 30",
        "--rbd-default-format 1",
        "--rbd-default-stripe-unit 64K",
        "--rbd-default-data-pool nosuch",
    ] {
        place.refused(&format!("create x --size 1M {wrong}"));
    }
    // An invalid value is ignored, as by stock `rbd`.
    for unknown in ["nosuch", "9999", "layering,nosuch"] {
        place.done(&format!("create x --size 1M --rbd-default-features {unknown}"));
        assert!(place.done("info x").contains("exclusive-lock"), "{unknown}");
        place.done("rm x");
    }
    as_the_pool_says(place);
}

/// A pool's settings override all others, except the options of a command.
fn as_the_pool_says(place: &Place) {
    let set = |key: &str, value: &str| place.done(&format!("config pool set {} {key} {value}", place.pool));
    let rm = |key: &str| place.done(&format!("config pool rm {} {key}", place.pool));
    let shaped = |line: &str| {
        place.done(line);
        let info = place.done("info x");
        place.done("rm x");
        info
    };
    set("rbd_default_order", "20");
    set("rbd_default_features", "layering,exclusive-lock");
    let info = shaped("create x --size 1M --rbd-default-order 16");
    assert!(info.contains("order 20") && info.contains("features: layering, exclusive-lock\n"), "{info}");
    assert!(shaped("create x --size 1M --object-size 8K").contains("order 13"));
    set("rbd_move_to_trash_on_remove", "true");
    place.done("create x --size 1M");
    place.done("rm x");
    let trash = place.done("trash ls");
    let id = trash.split_whitespace().next().expect("it is in the trash");
    place.done(&format!("trash rm {id}"));
    for key in ["rbd_default_order", "rbd_default_features", "rbd_move_to_trash_on_remove"] {
        rm(key);
    }
    assert!(shaped("create x --size 1M").contains("order 22"));
}

/// Both programs create the same image from the same options, from any source.
pub(crate) fn beside(place: &Place) {
    fs::write(place.dir.join("file"), [7; 100_000]).expect("written");
    for options in [
        "--rbd-default-order 16",
        "--rbd_default_features=5",
        "--rbd-default-features layering,exclusive-lock",
        "--rbd-default-stripe-unit 65536 --rbd-default-stripe-count 4",
        "--rbd-default-order 17 --rbd-default-stripe-unit 65536 --rbd-default-stripe-count 4 --object-size 1M",
        "--rbd-default-stripe-unit 4M --rbd-default-stripe-count 1",
    ] {
        same_shape(place, &format!("create NAME --size 4M {options}"));
        same_shape(place, &format!("import file NAME --no-progress {options}"));
    }
    place.done("create from --size 1M");
    let copied = format!("cp {pool}/from {pool}/NAME --no-progress", pool = place.pool);
    same_shape(place, &format!("{copied} --rbd-default-order 19 --rbd-default-features 1"));
    for wrong in ["--rbd-default-order 30", "--rbd-default-stripe-count 2", "--rbd-default-format 1"] {
        place.both_refuse(&format!("create x --size 1M {wrong}"));
    }
    place.ceph(&["config", "set", "client", "rbd_default_order", "20"]);
    let by_monitors = same_shape(place, "create NAME --size 4M");
    assert!(by_monitors.contains("order 20"), "{by_monitors}");
    // The command line overrides the monitors; so does the file.
    assert!(same_shape(place, "create NAME --size 4M --rbd-default-order 21").contains("order 21"));
    let own = place.dir.join("own.conf");
    let text = fs::read_to_string(&place.conf).expect("a file");
    fs::write(&own, format!("{text}\n[client]\nrbd default order = 18\n")).expect("written");
    let with_file = format!("-c {} create NAME --size 4M", own.display());
    assert!(same_shape(place, &with_file).contains("order 18"));
    place.ceph(&["config", "rm", "client", "rbd_default_order"]);
    by_the_pool(place);
}

fn by_the_pool(place: &Place) {
    let settings = [
        ("rbd_default_order", "20"),
        ("rbd_default_features", "5"),
        ("rbd_default_stripe_unit", "65536"),
        ("rbd_default_stripe_count", "4"),
    ];
    for (key, value) in settings {
        place.done(&format!("config pool set {} {key} {value}", place.pool));
        // A stripe unit alone is no valid layout.
        if key != "rbd_default_stripe_unit" {
            same_shape(place, "import file NAME --no-progress --rbd-default-order 17");
        }
    }
    assert!(same_shape(place, "create NAME --size 4M --rbd-default-order 21").contains("order 20"));
    same_shape(place, "create NAME --size 4M --object-size 1M --image-feature layering");
    let copied = format!("cp {pool}/from {pool}/NAME --no-progress", pool = place.pool);
    assert!(same_shape(place, &copied).contains("order 22"), "a copy is as what is copied");
    for (key, _) in settings {
        place.done(&format!("config pool rm {} {key}", place.pool));
    }
}

/// Creates an image with each program, compares and removes it. Returns its shape.
fn same_shape(place: &Place, line: &str) -> String {
    place.done(&line.replace("NAME", "shape"));
    let ours = shape(place);
    place.stock("rm shape --no-progress");
    place.stock(&line.replace("NAME", "shape"));
    let stock = shape(place);
    place.stock("rm shape --no-progress");
    assert_eq!(ours, stock, "{line}");
    ours
}

/// Returns the lines of `rbd info` that do not differ from image to image.
fn shape(place: &Place) -> String {
    let shown = place.stock("info shape");
    let of_shape =
        |line: &&str| ["order", "features", "stripe", "data_pool"].iter().any(|word| line.contains(word));
    shown.lines().filter(of_shape).map(str::trim).collect::<Vec<_>>().join("\n")
}
