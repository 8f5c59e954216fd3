//! Features: a change by one program is visible to the other, and both refuse the same.

use crate::{Place, exported_alike};

pub(crate) fn by_its_words(place: &Place) {
    place.done("create f --size 10 --object-size 64K --image-feature layering");
    place.done("bench f --io-type write --io-total 200K --io-pattern rand");
    place.done("snap create f@s");
    assert!(place.refused("feature enable f object-map").contains("object-map needs exclusive-lock"));
    assert!(place.refused("feature enable f journaling").contains("journaling"));
    assert!(place.refused("feature enable f layering").contains("layering cannot be switched"));
    assert!(place.refused("feature enable f flying").contains("no feature 'flying'"));
    assert!(place.refused("feature disable f object-map").contains("is off already"));
    place.done("feature enable f exclusive-lock,object-map");
    let info = place.done("info f");
    assert!(info.contains("layering, exclusive-lock, object-map, fast-diff\n"), "{info}");
    assert!(info.contains("\tflags: object map invalid, fast diff invalid\n"), "{info}");
    assert!(place.refused("feature enable f fast-diff").contains("is on already"));
    place.done("object-map rebuild f");
    assert!(place.done("info f").contains("\tflags: \n"));
    place.done("object-map check f");
    place.done("du f");
    assert!(place.refused("feature disable f exclusive-lock").contains("is needed"));
    place.done("feature disable f fast-diff");
    assert!(place.done("info f").contains("\tfeatures: layering, exclusive-lock\n"));
    place.done("bench f --io-type write --io-total 200K --io-pattern rand");
    place.done("feature disable f exclusive-lock");
    place.done("snap rm f@s");
    place.done("rm f");
}

pub(crate) fn beside(place: &Place) {
    for name in ["ours", "theirs"] {
        place.stock(&format!("create {name} --size 30M --object-size 1M --image-feature layering"));
        place.done(&format!("bench {name} --io-type write --io-size 64K --io-total 1M --io-pattern rand"));
        place.done(&format!("snap create {name}@a"));
    }
    for wrong in ["enable ours object-map", "enable ours layering", "disable ours exclusive-lock"] {
        place.both_refuse(&format!("feature {wrong}"));
    }
    switched(place, "enable", "exclusive-lock");
    place.both_refuse("feature enable ours exclusive-lock");
    place.both_refuse("feature enable ours exclusive-lock object-map");
    switched(place, "enable", "fast-diff");
    written(place);
    place.both_refuse("feature disable ours exclusive-lock");
    // Rebuilt by the program that did not enable it.
    place.done("object-map rebuild theirs");
    place.stock("object-map rebuild ours --no-progress");
    written(place);
    switched(place, "disable", "object-map");
    written(place);
    switched(place, "enable", "object-map");
    place.done("object-map rebuild ours");
    place.stock("object-map rebuild theirs --no-progress");
    written(place);
    switched(place, "disable", "object-map exclusive-lock");
    for name in ["ours", "theirs"] {
        place.done(&format!("snap rm {name}@a"));
        place.done(&format!("rm {name}"));
    }
    place.stock("create deep --size 5M");
    place.done("feature disable deep deep-flatten");
    place.both_refuse("feature enable deep deep-flatten");
    place.both_refuse("feature disable deep deep-flatten");
    place.same("info deep");
    place.done("rm deep");
}

/// Each program changes its own image; both show the same of either, including the snapshot's flags.
fn switched(place: &Place, word: &str, features: &str) {
    place.done(&format!("feature {word} ours {features}"));
    place.stock(&format!("feature {word} theirs {features}"));
    let of = |image: &str, key: &str| {
        let info = place.done(&format!("info {image}"));
        info.lines().find(|line| line.contains(key)).expect("a line").to_owned()
    };
    for key in ["features:", "flags:"] {
        assert_eq!(of("ours", key), of("theirs", key));
        assert_eq!(of("ours@a", key), of("theirs@a", key));
    }
    for spec in ["ours", "theirs", "ours@a", "theirs@a"] {
        place.same(&format!("info {spec}"));
    }
}

/// Both programs write to both images, and read the same.
fn written(place: &Place) {
    for name in ["ours", "theirs"] {
        place.stock(&format!("bench {name} --io-type write --io-size 4K --io-total 60K --io-pattern rand"));
        place.done(&format!("bench {name} --io-type write --io-size 9K --io-total 200K --io-pattern rand"));
        for spec in [name.to_owned(), format!("{name}@a")] {
            exported_alike(place, &spec);
            if place.done(&format!("info {spec}")).contains("flags: \n")
                && place.done(&format!("info {name}")).contains("object-map")
            {
                place.stock(&format!("object-map check {spec} --no-progress"));
            }
        }
    }
}
