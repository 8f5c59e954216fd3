//! Gives the shared library the name, the symbol versions and the loader's flags of stock librados.
//!
//! rustc passes a version script of its own, which exports the functions of this crate without a version.
//! The linker (rust-lld, rustc's default on x86-64 Linux) takes several scripts: `versions.map` adds the
//! nodes to which the `.symver` lines of `src/rados/versioned.rs` refer, `base.map` keeps the older forms
//! of the four functions that exist twice.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    for script in ["versions.map", "base.map"] {
        println!("cargo::rerun-if-changed={script}");
        println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={folder}/{script}");
    }
    // A library that has started threads must stay in memory, whatever dlclose is asked to do.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,librados.so.2");
}
