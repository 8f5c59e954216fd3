//! Goal: for any sequence of commands from clients, each command is answered once, the saved state reads
//! back as it was, and memory stays within its bound. Method: the corpus of commands ([`replay`]).

#[path = "../../../../fuzz/replay.rs"]
mod replay;

use replay::Corpus;

#[test]
fn whatever_clients_send_one_after_the_other_does_no_harm() {
    Corpus {
        name: "commands",
        play: |script, peak| loligo_mon::fuzz::commands(script, || peak.bytes()),
        well_min: 30,
        random_min: 50,
    }
    .replay();
}
