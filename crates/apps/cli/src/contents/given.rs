//! The values of `serve --image` and `--user`.

use std::path::PathBuf;

use loligo_mon::state::users::check_caps;
use loligo_server::Caps;
use loligo_wire::EntityName;

use crate::name::Name;

/// An image and the file with its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ImageFile {
    pub(super) pool: Option<String>,
    pub(super) name: Name,
    pub(super) file: PathBuf,
}

/// A user with its capabilities by service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: EntityName,
    pub(super) caps: Caps,
}

/// The users of one option or variable, a line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Users(pub(super) Vec<User>);

/// Parses `[POOL/]NAME=FILE`.
pub(super) fn image(text: &str) -> Result<ImageFile, String> {
    const FORM: &str = "the form is [POOL/]NAME=FILE";
    let (image, file) = text.split_once('=').ok_or(FORM)?;
    let (pool, name) = match image.split_once('/') {
        Some((pool, name)) => (Some(pool.to_owned()), name),
        None => (None, image),
    };
    let is_empty = name.is_empty() || file.is_empty() || pool.as_ref().is_some_and(String::is_empty);
    if is_empty || name.contains(['/', '@']) {
        return Err(FORM.to_owned());
    }
    Ok(ImageFile { pool, name: Name::from(name.to_owned()), file: file.into() })
}

/// Parses users, one a line. Empty lines are none.
pub(super) fn users(text: &str) -> Result<Users, String> {
    let is_one = text.trim().lines().count() <= 1;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let users = lines.map(|(number, line)| {
        user(line.trim()).map_err(|why| match is_one {
            true => why,
            false => format!("line {}: {why}", number + 1),
        })
    });
    users.collect::<Result<_, _>>().map(Users)
}

/// Parses `NAME=CAPS`.
fn user(text: &str) -> Result<User, String> {
    const FORM: &str =
        "the form is TYPE.ID=CAPS, where CAPS are pairs such as mon \"allow r\" osd \"allow rw\"";
    let (name, caps) = text.split_once('=').ok_or(FORM)?;
    let name: EntityName =
        name.parse().map_err(|_| format!("'{name}' is no name such as client.app; {FORM}"))?;
    let words = words(caps).map_err(|why| format!("{name}: {why}; {FORM}"))?;
    let (pairs, rest) = words.as_chunks::<2>();
    if name.id.is_empty() || pairs.is_empty() || !rest.is_empty() {
        return Err(format!("{name}: {FORM}"));
    }
    let caps: Caps = pairs.iter().cloned().map(|[service, cap]| (service, cap)).collect();
    if caps.len() < pairs.len() {
        return Err(format!("{name}: a service is named twice"));
    }
    check_caps(&caps).map_err(|why| format!("{name}: {}", why.status))?;
    Ok(User { name, caps })
}

/// Splits a text into words; quotes keep blanks.
fn words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if quote.is_some() { Err("a quote does not end".to_owned()) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_named_with_their_files() {
        let of = |text: &str| image(text).map(|image| (image.pool, image.name.to_string(), image.file));
        assert_eq!(of("a=/f"), Ok((None, "a".to_owned(), "/f".into())));
        assert_eq!(of("p/a=f=g"), Ok((Some("p".to_owned()), "a".to_owned(), "f=g".into())));
        for wrong in ["a", "=f", "a=", "/a=f", "p/=f", "p/n/a=f", "p/a@s=f"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    fn caps(pairs: &[(&str, &str)]) -> Caps {
        pairs.iter().map(|(service, cap)| ((*service).to_owned(), (*cap).to_owned())).collect()
    }

    #[test]
    fn users_have_pairs_of_capabilities() {
        let two = "client.app=mon 'allow r' osd \"allow rw pool=p\"";
        let app = User {
            name: EntityName::client("app"),
            caps: caps(&[("mon", "allow r"), ("osd", "allow rw pool=p")]),
        };
        assert_eq!(users(two), Ok(Users(vec![app.clone()])));
        let other = User { name: EntityName::client("b"), caps: caps(&[("osd", "allow r")]) };
        let lines = format!("\n{two}\n  client.b=osd 'allow r'\n\n");
        assert_eq!(users(&lines), Ok(Users(vec![app, other])));
        assert_eq!(users(""), Ok(Users(Vec::new())));
    }

    #[test]
    fn a_wrong_user_is_named_with_its_line() {
        for (wrong, said) in [
            ("client.app", "the form is TYPE.ID=CAPS"),
            ("client.app=", "client.app: the form is"),
            ("client.app=mon", "client.app: the form is"),
            ("client.=mon 'allow r'", "client.: the form is"),
            ("app=mon 'allow r'", "'app' is no name such as client.app"),
            ("client.a=mon 'x", "client.a: a quote does not end"),
            ("client.a=mon 'allow r' mon 'allow *'", "client.a: a service is named twice"),
            ("client.a=osd 'allow nonsense'", "client.a: osd capability parse failed, stopped at"),
            ("client.a=mom 'allow r'", "client.a: unknown cap type 'mom'"),
            ("client.a=mon 'allow r'\nclient.b=mon", "line 2: client.b: the form is"),
        ] {
            let refused = users(wrong).expect_err(wrong);
            assert!(refused.starts_with(said), "{wrong}: {refused}");
        }
    }
}
