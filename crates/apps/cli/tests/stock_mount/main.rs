//! Goal: a directory mounted by `loligo mount` is a POSIX file system that stock clients share. Method: a
//! stock metadata server; the kernel's calls go through our mount and through ceph-fuse, on the same tree
//! at the same time. Programs that know what a file system must do (git, SQLite, cargo) run in it.

mod coherence;
mod files;
mod life;
mod programs;
mod support;
