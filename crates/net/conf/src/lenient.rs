//! Forms in a configuration or keyring that this project accepts and stock programs refuse or ignore.

use loligo_cephx::ini::normalize;

/// A form that stock programs do not accept, and the line (from 1) of its first occurrence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leniency {
    pub(crate) line: usize,
    pub(crate) what: &'static str,
}

const MARK: &str = "begins with a byte order mark: stock programs abort";
const INDENTED: &str = "has a section that is indented: stock programs refuse the file";
const PADDED: &str = "has a section with blanks within the brackets: stock programs take it for another one";
const UNNAMED: &str = "has a section without a name: stock programs refuse the file";
const DASHES: &str =
    "has an option's name with other dashes or underscores than stock programs take: they pass it over";
const MARKED_NAME: &str = "has # or ; within a name: stock programs refuse the file";
const HEADLESS: &str = "has settings before its first section: stock programs refuse the file";
const UNENDED: &str = "does not end with a line feed: stock programs refuse the file";
const CONTINUED: &str = "ends in a line that is continued: stock programs refuse the file";

/// Returns all such forms in a text, each kind once.
pub(crate) fn leniencies(text: &str) -> Vec<Leniency> {
    let mut found: Vec<Leniency> = Vec::new();
    let mut note = |line, what| {
        if found.iter().all(|seen| seen.what != what) {
            found.push(Leniency { line, what });
        }
    };
    let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
    if bare.len() < text.len() {
        note(1, MARK);
    }
    let (mut first_setting, mut sections) = (None, 0);
    let mut continued = false;
    for (index, line) in bare.lines().enumerate() {
        let (number, starts) = (index + 1, !continued);
        continued = loligo_cephx::ini::ends_in_continuation(line);
        let words = line.trim();
        if !starts || words.is_empty() || words.starts_with(['#', ';']) {
            continue;
        }
        if words.starts_with('[') {
            sections += 1;
            of_section(line, |what| note(number, what));
            if let Some(at) = first_setting.filter(|_| sections == 1) {
                note(at, HEADLESS);
            }
        } else if let Some((name, _)) = words.split_once('=') {
            first_setting = first_setting.or(Some(number));
            of_name(name, |what| note(number, what));
        }
    }
    let lines = bare.lines().count();
    if continued {
        note(lines, CONTINUED);
    } else if !bare.is_empty() && !bare.ends_with('\n') {
        note(lines, UNENDED);
    }
    found
}

fn of_section(line: &str, mut note: impl FnMut(&'static str)) {
    if !line.starts_with('[') {
        note(INDENTED);
    }
    let name = line.trim().trim_start_matches('[').split(']').next().unwrap_or_default();
    match name.trim() {
        "" => note(UNNAMED),
        trimmed if trimmed.len() < name.len() => note(PADDED),
        _ => {}
    }
    if name.contains(['#', ';']) {
        note(MARKED_NAME);
    }
}

fn of_name(name: &str, mut note: impl FnMut(&'static str)) {
    if name.contains(['#', ';']) {
        note(MARKED_NAME);
    }
    // Stock programs replace white space by one underscore and change nothing else.
    let stock = name.split_whitespace().collect::<Vec<_>>().join("_");
    if stock != normalize(name) {
        note(DASHES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts with the expected warning; `None`: `ceph-conf --lookup mon_host` of 16.2.15 finds `A`.
    const TEXTS: &[(&str, Option<&str>)] = &[
        ("[global]\nmon host = A\n", None),
        ("\u{feff}[global]\nmon host = A\n", Some(MARK)),
        ("  [global]\nmon host = A\n", Some(INDENTED)),
        ("[ global ]\nmon host = A\n", Some(PADDED)),
        ("[global]   \nmon host = A\n", None),
        ("[global] # c\nmon host = A\n", None),
        ("[global]\n  mon host = A\n", None),
        ("[global]\nmon-host = A\n", Some(DASHES)),
        ("[global]\nmon_host = A\n", None),
        ("[global]\nmon  host = A\n", None),
        ("[global]\nmon\thost = A\n", None),
        ("[global]\nmon__host = A\n", Some(DASHES)),
        ("[global]\n_mon_host = A\n", Some(DASHES)),
        ("[global]\nmon_host_ = A\n", Some(DASHES)),
        ("mon host = A\n", None),
        ("mon host = A\n[global]\n", Some(HEADLESS)),
        ("[global]\r\nmon host = A\r\n", None),
        ("[global]\nmon host = A", Some(UNENDED)),
        ("[global]\nmon host = A\\\n", Some(CONTINUED)),
        ("[]\n[global]\nmon host = A\n", Some(UNNAMED)),
        ("[global]\nmon host = A\n[a#b]\n", Some(MARKED_NAME)),
        ("[global]\nx#y = 1\nmon host = A\n", Some(MARKED_NAME)),
        ("[global]\n# c \\\nmon host = A\n", None),
        ("[global]\nmon host = B # \\\nmon host = A\n", None),
        ("[global]\n\n ; c\n\t# c\nmon host = A\n", None),
    ];

    #[test]
    fn what_stock_programs_do_not_take_is_found() {
        for (text, said) in TEXTS {
            let found: Vec<_> = leniencies(text).into_iter().map(|found| found.what).collect();
            assert_eq!(found, said.iter().copied().collect::<Vec<_>>(), "{text:?}");
            let conf = crate::Conf::parse(text, "client.a".parse().unwrap(), Default::default());
            assert_eq!(conf.unwrap().text("mon_host").as_deref(), Some("A"), "{text:?}");
        }
    }

    #[test]
    fn each_is_told_once_with_its_first_line() {
        let found = leniencies("[global]\na-b = 1\nc-d = 1\n [client]\n");
        assert_eq!(found, [Leniency { line: 2, what: DASHES }, Leniency { line: 4, what: INDENTED }]);
    }

    #[test]
    #[ignore = "needs stock Ceph; run by cargo xtask test"]
    fn ceph_conf_takes_or_refuses_these_texts_so() {
        let file = std::env::temp_dir().join(format!("loligo-lenient-{}.conf", std::process::id()));
        for (text, said) in TEXTS {
            std::fs::write(&file, text).unwrap();
            let mut stock = std::process::Command::new("ceph-conf");
            let shown = stock.arg("-c").arg(&file).args(["--lookup", "mon_host"]).output().unwrap();
            let found = shown.status.success() && shown.stdout == b"A\n";
            assert_eq!(found, said.is_none(), "{text:?}: {shown:?}");
        }
        std::fs::remove_file(&file).unwrap();
    }
}
