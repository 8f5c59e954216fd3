//! Goal: for any sequence of client actions, replies arrive in order, objects read back as expected, and
//! memory stays within its bound. Method: the corpus of scripts ([`replay`]).

#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::Corpus;

#[test]
fn whatever_clients_do_one_after_the_other_does_no_harm() {
    Corpus {
        name: "sequences",
        play: |script, peak| loligo_osd::fuzz::sequences(script, || peak.bytes()),
        well_min: 20,
        random_min: 100,
    }
    .replay();
}
