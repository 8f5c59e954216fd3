//! A client of toy metadata servers, all in this process: good ones, several ranks of them, and ones that
//! break every rule.

mod cluster;
mod complete;
mod hostile;
mod life;
mod lookups;
mod monitor;
mod ranks;
mod returns;
mod revokes;
mod server;
mod tree;
