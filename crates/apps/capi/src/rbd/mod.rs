//! The functions of `librbd.h`, by topic.

mod aio;
mod config;
mod create;
mod diff;
mod events;
mod features;
mod group;
mod image;
mod io;
mod list;
mod lock;
mod metadata;
mod migration;
mod open;
mod options;
mod parent;
mod poll;
mod pool_stats;
mod progress;
mod snap;
mod trash;
mod update_watches;
mod updates;
mod uses;
