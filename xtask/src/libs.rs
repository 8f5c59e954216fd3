//! `cargo xtask dist --libs DIR`: librados.so.2, librbd.so.1 and libradosstriper.so.1 for programs that
//! exist, and what is needed to compile others with them.
//!
//! The first has the functions of all three. The others are empty and need it, so that programs linked with
//! one of them alone find the functions. The exported functions are compared with the lists of their names
//! in `crates/apps/capi/symbols`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{cargo, output_of, succeed, workspace};
use crate::{Result, headers};

/// The functions that exist in two versions.
const TWICE: [&str; 4] = ["rados_ioctx_pool_stat", "rados_tmap_get", "rados_tmap_put", "rados_tmap_update"];

/// The file that cargo builds.
pub(crate) const BUILT: &str = "libloligo_capi.so";

/// The libraries that only need the first one.
const STUBS: [&str; 2] = ["librbd.so.1", "libradosstriper.so.1"];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Builds librados.so.2 and its kin into this folder, with headers and files for pkg-config.
    #[arg(long, value_name = "DIR")]
    libs: Option<PathBuf>,
    /// Builds without optimisation, in the time of a debug build.
    #[arg(long)]
    pub(crate) debug: bool,
    /// Writes the C headers from the functions of the libraries, and builds nothing.
    #[arg(long, id = "write_headers")]
    write_headers: bool,
}

/// Returns the folder of the libraries, if they are asked for.
pub(crate) fn run(options: &Options) -> Result<Option<&Path>> {
    if options.write_headers {
        headers::write()?;
    }
    let Some(libs) = options.libs.as_deref() else { return Ok(None) };
    build(options.debug, libs)?;
    println!("to run a program on them:     LD_LIBRARY_PATH={} PROGRAM", libs.display());
    println!("to compile and link with them: PKG_CONFIG_PATH={}/pkgconfig", libs.display());
    Ok(Some(libs))
}

/// Builds the optimised libraries into a folder.
pub(crate) fn optimised(libs: &Path) -> Result<()> {
    build(false, libs)
}

fn build(debug: bool, libs: &Path) -> Result<()> {
    let (profile, folder) = if debug { ("dev", "debug") } else { ("release", "release") };
    succeed(cargo().args(["build", "-p", "loligo-capi", "--lib", "--profile", profile]))?;
    make(&workspace().join("target").join(folder).join(BUILT), libs)?;
    for_compilers(libs)
}

/// Adds what a compiler, a linker and pkg-config want: headers, the names without versions, and the three
/// files of pkg-config, which find the others from where they are.
fn for_compilers(folder: &Path) -> Result<()> {
    headers::copy_to(&folder.join("include"))?;
    fs::create_dir_all(folder.join("pkgconfig"))?;
    for library in ["librados.so.2", STUBS[0], STUBS[1]] {
        let (name, _) = library.split_once(".so.").ok_or("a library has a version")?;
        // The functions are in librados: what is linked with the others is linked with it, too.
        let inputs = if name == "librados" { library.to_owned() } else { format!("{library} librados.so.2") };
        fs::write(folder.join(format!("{name}.so")), format!("/* for the linker */\nINPUT ( {inputs} )\n"))?;
        fs::write(folder.join("pkgconfig").join(format!("{name}.pc")), for_pkg_config(name))?;
    }
    Ok(())
}

/// The file of pkg-config for a library. It is in a folder of the libraries' folder, wherever that is.
fn for_pkg_config(library: &str) -> String {
    let short = library.trim_start_matches("lib");
    format!(
        "libdir=${{pcfiledir}}/..\nincludedir=${{pcfiledir}}/../include\n\nName: {library}\n\
         Description: {library} of Loligo\nVersion: {}\nLibs: -L${{libdir}} -l{short}\n\
         Cflags: -I${{includedir}}\n",
        env!("CARGO_PKG_VERSION"),
    )
}

/// Makes the three libraries of the one that cargo has built.
pub(crate) fn make(built: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let librados = folder.join("librados.so.2");
    // Programs that have the old file open keep it.
    let _ = fs::remove_file(&librados);
    fs::copy(built, &librados).map_err(|why| format!("cannot copy {}: {why}", built.display()))?;
    hide_older_forms(&librados)?;
    check(&librados)?;
    STUBS.into_iter().try_for_each(|stub| link_stub(folder, stub))
}

/// Marks the older forms of the functions that exist twice as hidden: programs that are linked from now on
/// get the newer forms, and programs that were linked before there were versions still find the older ones.
/// GNU ld would mark them by itself; lld does not, and the assembler cannot.
fn hide_older_forms(library: &Path) -> Result<()> {
    const GLOBAL: u16 = 1;
    const HIDDEN: u16 = 0x8000;
    let sections = output_of(Command::new("readelf").arg("-WS").arg(library))?;
    let versions = sections.lines().find_map(|line| line.split_once(" .gnu.version ")).map(|(_, rest)| rest);
    let offset = versions.and_then(|rest| rest.split_whitespace().nth(2)).ok_or("no section .gnu.version")?;
    let offset = usize::from_str_radix(offset, 16)?;
    let symbols = output_of(Command::new("readelf").args(["-W", "--dyn-syms"]).arg(library))?;
    let mut bytes = fs::read(library)?;
    for name in TWICE {
        let line = symbols.lines().find(|line| line.split_whitespace().last() == Some(name));
        let number = line.and_then(|line| line.trim_start().split_once(':')).map(|(number, _)| number);
        let at = offset + 2 * number.ok_or_else(|| format!("{name} has no older form"))?.parse::<usize>()?;
        let version = bytes.get_mut(at..at + 2).ok_or("section .gnu.version is short")?;
        if *version != GLOBAL.to_le_bytes() {
            return Err(format!("{name} has version {version:?} instead of none").into());
        }
        version.copy_from_slice(&(GLOBAL | HIDDEN).to_le_bytes());
    }
    Ok(fs::write(library, bytes)?)
}

/// Links an empty library that needs `librados.so.2`.
fn link_stub(folder: &Path, name: &str) -> Result<()> {
    let source = folder.join(format!("{name}.c"));
    fs::write(&source, "typedef int its_functions_are_in_librados;\n")?;
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-nostdlib", "-Wl,-z,nodelete", "-Wl,--no-as-needed"]);
    cc.arg(format!("-Wl,-soname,{name}")).arg("-o").arg(folder.join(name));
    cc.arg(&source).arg(folder.join("librados.so.2"));
    let linked = succeed(&mut cc);
    fs::remove_file(&source)?;
    linked
}

/// Checks the library's name, and that it exports what the lists say and nothing else.
fn check(library: &Path) -> Result<()> {
    let dynamic = output_of(Command::new("readelf").arg("-d").arg(library))?;
    for wanted in ["Library soname: [librados.so.2]", "NODELETE"] {
        if !dynamic.contains(wanted) {
            return Err(format!("{}: readelf -d shows no '{wanted}'", library.display()).into());
        }
    }
    let exported = output_of(Command::new("nm").args(["-D", "--defined-only"]).arg(library))?;
    let exported = symbols(&exported);
    let wanted = listed()?;
    let lacking: Vec<_> = wanted.difference(&exported).cloned().collect();
    let strays: Vec<_> = exported.difference(&wanted).cloned().collect();
    if lacking.is_empty() && strays.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{}: not exported: {}; exported without being listed: {}",
        library.display(),
        lacking.join(" "),
        strays.join(" ")
    )
    .into())
}

/// The names, with versions, in the output of nm. The nodes of the versions are symbols too.
fn symbols(output: &str) -> BTreeSet<String> {
    let name = |line: &str| line.split_whitespace().last().map(str::to_owned);
    output.lines().filter_map(name).filter(|name| !name.starts_with("LIBRADOS_")).collect()
}

/// The names that the library has to export.
fn listed() -> Result<BTreeSet<String>> {
    let folder = workspace().join("crates/apps/capi/symbols");
    let mut names = BTreeSet::new();
    for list in ["librados.txt", "librbd.txt", "libradosstriper.txt"] {
        names.extend(fs::read_to_string(folder.join(list))?.lines().map(str::to_owned));
    }
    names.extend(TWICE.iter().map(|name| format!("{name}@@LIBRADOS_14.2.0")));
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_every_function_of_the_three_libraries() {
        let names = listed().expect("the lists are there");
        assert_eq!(names.len(), 246 + 294 + 38 + TWICE.len());
        assert!(TWICE.iter().all(|name| names.contains(*name)));
    }

    #[test]
    fn pkg_config_finds_what_is_beside_its_file() {
        let text = for_pkg_config("libradosstriper");
        assert!(text.contains("\nLibs: -L${libdir} -lradosstriper\n"), "{text}");
        assert!(text.starts_with("libdir=${pcfiledir}/..\nincludedir=${pcfiledir}/../include\n\n"), "{text}");
        assert!(!text.contains(env!("CARGO_MANIFEST_DIR")), "it names a folder of this machine");
    }

    #[test]
    fn nodes_of_versions_are_no_functions() {
        let output = "0000000000000000 A LIBRADOS_14.2.0@@LIBRADOS_14.2.0\n00001000 T rados_create\n";
        assert_eq!(symbols(output), ["rados_create".to_owned()].into());
    }
}
