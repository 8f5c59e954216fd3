//! The commands of a page of the book, and whether they print what the page shows.
//!
//! The commands of a door are in the blocks that begin with ```` ```console door=NAME ````, in their order.
//! `$` stands before a user's command and `#` before the administrator's. `…` stands for any text.

use std::fmt::Write as _;

use crate::Result;

/// The character that stands for any text.
const ANY: char = '…';

/// A command, and what the page shows below it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// `$` or `#`, as the page has it.
    pub(super) prompt: char,
    pub(super) command: String,
    pub(super) shown: String,
}

/// The commands of a door.
pub(super) fn steps(page: &str, door: &str) -> Result<Vec<Step>> {
    let begin = format!("```console door={door}");
    let mut steps: Vec<Step> = Vec::new();
    let mut is_inside = false;
    for line in page.lines() {
        if !is_inside || line == "```" {
            is_inside = line == begin;
            continue;
        }
        let command = ['$', '#'].into_iter().find_map(|prompt| {
            let command = line.strip_prefix(prompt)?.strip_prefix(' ')?;
            Some(Step { prompt, command: command.to_owned(), shown: String::new() })
        });
        match (command, steps.last_mut()) {
            (Some(step), _) => steps.push(step),
            (None, Some(step)) => writeln!(step.shown, "{line}")?,
            (None, None) => return Err(format!("door {door}: output before a command: {line}").into()),
        }
    }
    if steps.is_empty() { Err(format!("the page has no block '{begin}'").into()) } else { Ok(steps) }
}

/// A script that runs the commands in one shell, and records what the command with index N prints in `out.N`
/// of a folder and its exit status in `status.N`.
///
/// A command that ends in `&` stays in the background; the next one runs when it has printed something. A
/// `loligo serve` without `--mon-addr` gets a free port: the usual one may be in use on this machine.
pub(super) fn script(steps: &[Step], records: &str) -> Result<String> {
    let mut script = String::new();
    for (i, step) in steps.iter().enumerate() {
        let mut command = step.command.clone();
        if command.contains("loligo serve") && !command.contains("--mon-addr") {
            command = command.replacen("loligo serve", "loligo serve --mon-addr 127.0.0.1:0", 1);
        }
        match command.strip_suffix('&') {
            Some(command) => writeln!(
                script,
                "{command} >{records}/out.{i} 2>&1 &\n\
                 until [ -s {records}/out.{i} ]; do kill -0 $! || break; sleep 0.05; done"
            ),
            None => writeln!(
                script,
                "{{ {command}\n}} >{records}/out.{i} 2>&1 </dev/null; echo $? >{records}/status.{i}"
            ),
        }?;
    }
    Ok(script + "kill $(jobs -p); wait\n")
}

/// Returns `true` if a text matches the shown one, in which [`ANY`] stands for any text.
pub(super) fn matches(shown: &str, text: &str) -> bool {
    let mut parts = shown.trim_end().split(ANY);
    let text = text.trim_end();
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# Installing
```console door=deb
# apt-get install ./x.deb
…
$ loligo serve --data d &
ready …
```
```console
$ elsewhere
```
```console door=binary
$ other
```
```console door=deb
$ loligo ls
```
";

    #[test]
    fn a_door_has_the_commands_of_its_blocks() {
        let steps = steps(PAGE, "deb").expect("steps");
        let found: Vec<_> = steps.iter().map(|s| (s.prompt, s.command.as_str(), s.shown.as_str())).collect();
        assert_eq!(
            found,
            [
                ('#', "apt-get install ./x.deb", "…\n"),
                ('$', "loligo serve --data d &", "ready …\n"),
                ('$', "loligo ls", "")
            ]
        );
        assert!(super::steps(PAGE, "none").is_err());
    }

    #[test]
    fn a_script_runs_a_server_beside_the_others_and_records_what_they_say() {
        let script = script(&steps(PAGE, "deb").expect("steps"), "/r").expect("a script");
        assert!(
            script.contains("loligo serve --mon-addr 127.0.0.1:0 --data d  >/r/out.1 2>&1 &\n"),
            "{script}"
        );
        assert!(
            script.contains("{ loligo ls\n} >/r/out.2 2>&1 </dev/null; echo $? >/r/status.2\n"),
            "{script}"
        );
    }

    #[test]
    fn an_ellipsis_is_any_text() {
        for (shown, text, is) in [
            ("a", "a\n", true),
            ("a", "ab", false),
            ("", "a", false),
            ("…\n", "", true),
            ("a … c", "a b", false),
            ("…\np …\n…", "x\np 1\ny", true),
        ] {
            assert_eq!(matches(shown, text), is, "{shown:?} and {text:?}");
        }
    }
}
