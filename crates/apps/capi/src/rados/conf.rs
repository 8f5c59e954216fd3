//! Options of a cluster handle.

use std::ffi::{c_char, c_int, c_void};

use loligo_conf::table;
use loligo_wire::Errno;

use super::Client;
use crate::border::{Fail, calls};
use crate::memory::{array, bytes, fill_text, optional_text, text};

/// The name of an option as tables have it.
fn normalized(option: &str) -> String {
    option.trim().replace([' ', '-'], "_")
}

/// Returns an option's value as text, or its default.
pub(crate) fn value_of(client: &Client, option: &str) -> Result<String, Fail> {
    let name = normalized(option);
    let known = table::known(&name).ok_or(Errno::ENOENT)?;
    let conf = client.conf();
    if let Some(value) = conf.text(&name) {
        // Written in a file as `yes` or `1K`, read as the type has it.
        return Ok(known.accept(&value).map_or(value, |accepted| accepted.value));
    }
    let default = known.facts().map(|facts| facts.default_for(conf.name())).unwrap_or_default();
    Ok(match name.as_str() {
        "name" => conf.name().to_string(),
        "cluster" => conf.cluster().to_owned(),
        _ => conf.expand(&default),
    })
}

/// Sets an option.
fn set(client: &Client, option: &str, value: &str) -> Result<(), Fail> {
    let name = normalized(option);
    let known = table::known(&name).ok_or(Errno::ENOENT)?;
    let accepted = known.accept(value).map_err(|_| Errno::EINVAL)?;
    client.set(&name, &accepted.value);
    Ok(())
}

/// Takes the words of a command line that are options; returns the numbers of those that are not.
fn parse_words(client: &Client, words: &[&[u8]]) -> Result<Vec<usize>, Fail> {
    let texts: Vec<String> = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let left = client.configure(|options| {
        let mut left = texts.clone();
        options.take(&mut left, |_| false)?;
        // A file or another user that the words name takes effect when it is read.
        Ok(left)
    })?;
    // The words that are left, in their order: each is found behind the one before.
    let mut at = 0;
    let mut numbers = Vec::with_capacity(left.len());
    for word in &left {
        while at < texts.len() && texts[at] != *word {
            at += 1;
        }
        if at < texts.len() {
            numbers.push(at);
            at += 1;
        }
    }
    Ok(numbers)
}

calls! {
    /// Reads a file; NULL is `CEPH_CONF` or the first of the usual files.
    fn rados_conf_read_file(cluster: *mut c_void, path: *const c_char) -> c_int {
        let client = Client::of(cluster)?;
        let path = optional_text(path)?.filter(|path| !path.is_empty());
        client.read_file(path)?;
        Ok(0)
    }

    /// Takes options from a command line.
    fn rados_conf_parse_argv(cluster: *mut c_void, count: c_int, words: *mut *const c_char) -> c_int {
        let client = Client::of(cluster)?;
        let words = array(words.cast_const(), usize::try_from(count).unwrap_or(0));
        let texts: Vec<&[u8]> = words.iter().map(|word| bytes(*word)).collect::<Result<_, _>>()?;
        parse_words(client, &texts)?;
        Ok(0)
    }

    /// Takes options from a command line and stores the words that are none, then NULLs.
    fn rados_conf_parse_argv_remainder(
        cluster: *mut c_void, count: c_int, words: *mut *const c_char, left: *mut *const c_char,
    ) -> c_int {
        let client = Client::of(cluster)?;
        let words = array(words.cast_const(), usize::try_from(count).unwrap_or(0));
        let texts: Vec<&[u8]> = words.iter().map(|word| bytes(*word)).collect::<Result<_, _>>()?;
        let numbers = parse_words(client, &texts)?;
        for at in 0..words.len() {
            let word = numbers.get(at).map_or(std::ptr::null(), |number| words[*number]);
            left.add(at).write(word);
        }
        Ok(0)
    }

    /// Takes options from a variable of the environment; NULL is `CEPH_ARGS`.
    fn rados_conf_parse_env(cluster: *mut c_void, variable: *const c_char) -> c_int {
        let client = Client::of(cluster)?;
        let variable = optional_text(variable)?.unwrap_or("CEPH_ARGS");
        let Ok(value) = std::env::var(variable) else { return Ok(0) };
        let words: Vec<&[u8]> = value.split_whitespace().map(str::as_bytes).collect();
        parse_words(client, &words)?;
        Ok(0)
    }

    /// Sets an option.
    fn rados_conf_set(cluster: *mut c_void, option: *const c_char, value: *const c_char) -> c_int {
        set(Client::of(cluster)?, text(option)?, text(value)?)?;
        Ok(0)
    }

    /// Copies an option's value. Unlike elsewhere, ENAMETOOLONG tells that there is no room for it.
    fn rados_conf_get(
        cluster: *mut c_void, option: *const c_char, to: *mut c_char, room: usize,
    ) -> c_int {
        let value = value_of(Client::of(cluster)?, text(option)?)?;
        fill_text(to, room, value.as_bytes()).map_err(|_| Errno::ENAMETOOLONG)?;
        Ok(0)
    }
}
