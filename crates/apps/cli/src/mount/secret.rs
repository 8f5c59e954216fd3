//! A key on the command line, which all users of a machine can see there.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::failure::Failure;

/// The variable that holds the key instead: only the same user, and root, can see those of a process.
const KEY: &str = "LOLIGO_MOUNT_SECRET";
/// The option that has the key, and what is left in its place.
const OPTION: &[u8] = b"secret=";
const NOTHING: &[u8] = b"defaults";

/// Returns the key, if an earlier call of [`hide`] has hidden one.
pub(super) fn hidden() -> Option<String> {
    std::env::var(KEY).ok()
}

/// If the command line has a key, starts this program in the same process once more, with a command line
/// without it.
pub(super) fn hide() -> Result<(), Failure> {
    let mut words = std::env::args_os();
    let called = words.next().unwrap_or_default();
    let (words, key) = without_key(words);
    let Some(key) = key else { return Ok(()) };
    let failed = |e: std::io::Error| Failure::new("mount", format!("start without the key: {e}"));
    let program = std::env::current_exe().map_err(failed)?;
    // Returns only if it fails.
    Err(failed(Command::new(program).arg0(called).args(words).env(KEY, key).exec()))
}

/// Takes the key out of the words of a command line. Of several the last one counts.
fn without_key(words: impl Iterator<Item = OsString>) -> (Vec<OsString>, Option<OsString>) {
    let (mut left, mut key, mut is_value) = (Vec::new(), None, false);
    for word in words {
        let (flag, list) = match word.as_bytes() {
            list if is_value => (&b""[..], list),
            attached if attached.starts_with(b"-o") && attached.len() > 2 => attached.split_at(2),
            _ => {
                is_value = word == "-o";
                left.push(word);
                continue;
            }
        };
        is_value = false;
        let options: Vec<&[u8]> = list
            .split(|byte| *byte == b',')
            .map(|option| match option.strip_prefix(OPTION) {
                Some(found) => {
                    key = Some(OsStr::from_bytes(found).to_owned());
                    NOTHING
                }
                None => option,
            })
            .collect();
        left.push(OsString::from_vec([flag, &options.join(&b","[..])].concat()));
    }
    (left, key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(line: &str) -> (String, Option<String>) {
        let (words, key) = without_key(line.split(' ').map(OsString::from));
        let words: Vec<String> = words.into_iter().map(|word| word.into_string().expect("text")).collect();
        (words.join(" "), key.map(|key| key.into_string().expect("text")))
    }

    #[test]
    fn the_key_goes_and_everything_else_stays() {
        for line in ["mount /mnt", "mount :/secret=x /secret=y -o ro,secretfile=/k", "-o", "mount -f /mnt"] {
            assert_eq!(without(line), (line.to_owned(), None));
        }
        let key = Some("AQ==".to_owned());
        for (line, left) in [
            ("mount :/ /mnt -o secret=AQ==", "mount :/ /mnt -o defaults"),
            ("mount -o ro,secret=AQ==,name=a /mnt -f", "mount -o ro,defaults,name=a /mnt -f"),
            ("mount -oro,secret=AQ== /mnt -o rw", "mount -oro,defaults /mnt -o rw"),
            ("mount -o secret=B -o secret=AQ== /mnt", "mount -o defaults -o defaults /mnt"),
        ] {
            assert_eq!(without(line), (left.to_owned(), key.clone()));
        }
    }
}
